// Runs tests inside VS Code's extension host under code-server, as @vscode/test-electron does where it can download.
// VS Code ignores the payload unless code-server runs with --vscode-option enable-smoke-test-driver.
// usage: node run_in_host.mjs URL EXTENSION_FOLDER TESTS.cjs
import { chromium } from "playwright-core";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [url, extension, tests] = process.argv.slice(2);
const remote = (path) => `vscode-remote://${new URL(url).host}${path}`;
const payload = [["extensionDevelopmentPath", remote(extension)], ["extensionTestsPath", remote(tests)]];
const context = await chromium.launchPersistentContext(mkdtempSync(join(tmpdir(), "chromium-")), {
  executablePath: "/usr/bin/chromium",
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
const page = context.pages()[0] ?? (await context.newPage());
const finished = new Promise((resolve) => {
  void page.exposeFunction("codeAutomationLog", (type, args) => {
    if (/^(ok |FAIL |\d+ passed)/.test(String(args[0]))) console.log(...args);
  });
  void page.exposeFunction("codeAutomationExit", (code) => resolve(code));
  setTimeout(() => resolve(124), 240_000).unref();
});
await page.goto(`${url}&payload=${encodeURIComponent(JSON.stringify(payload))}`);
const code = await finished;
await context.close();
process.exit(code);
