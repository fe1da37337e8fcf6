// Drives VS Code (code-server) in Chromium as a person would. usage: node drive.mjs URL SCREENSHOT_FOLDER
import { chromium } from "playwright-core";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [url, shots] = process.argv.slice(2);
const began = Date.now();
const log = (...words) => console.log(((Date.now() - began) / 1000).toFixed(1).padStart(6), ...words);
const text = async (locator) => (await locator.first().innerText()).replace(/\s+/g, " ").trim();
const context = await chromium.launchPersistentContext(mkdtempSync(join(tmpdir(), "chromium-")), {
  executablePath: "/usr/bin/chromium",
  headless: true,
  viewport: { width: 1400, height: 900 },
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
const page = context.pages()[0] ?? (await context.newPage());
let count = 0;
const shot = async (name) => {
  await page.screenshot({ path: join(shots, `${String(++count).padStart(2, "0")}-${name}.png`) });
  log("shot", name);
};
const shown = (selector, timeout = 30000) => page.locator(selector).first().waitFor({ timeout });
const gone = (selector, timeout = 5000) => page.locator(selector).first().waitFor({ state: "detached", timeout });
const palette = async (command) => {
  await page.keyboard.press("F1");
  await page.locator(".quick-input-widget input").fill(`>${command}`);
  await page.locator(".quick-input-list .monaco-list-row", { hasText: command }).first().click();
};
const kernelName = page.locator(".view-lines span span", { hasText: "transpose" }).first();
const optimizing = ".notification-toast:has-text('Optimizing transpose')";
const startJob = async () => {
  await page.locator(".view-line", { hasText: "__global__ void transpose" }).first().click();
  await page.keyboard.press("Control+.");
  await page.locator(".action-widget .monaco-list-row", { hasText: "Optimize kernel" }).click();
  await shown(optimizing);
};

const steps = {
  async open() {
    await page.goto(url, { waitUntil: "domcontentloaded" });
    await shown(".monaco-workbench .part.editor", 90000);
    await page.keyboard.press("Control+P");
    await page.locator(".quick-input-widget input").fill("transpose.cu");
    await shown(".quick-input-list .monaco-list-row:has-text('transpose.cu')");
    await page.keyboard.press("Enter");
    await shown(".view-lines >> text=__global__", 30000);
    await shown(".codelens-decoration a", 60000);
    // The file is profiled when it opens: the lens fills and the store's line gets its squiggle.
    await shown(".codelens-decoration:has-text('predicted')", 60000);
    log("  lens:", await text(page.locator(".codelens-decoration")));
    await shown(".squiggly-info, .squiggly-hint", 30000);
    await shot("open");
  },
  async hover() {
    await page.locator(".view-line", { hasText: "__global__ void transpose" }).locator("span", { hasText: /transpose/ }).last().hover();
    await shown(".monaco-hover:not(.hidden) table");
    log("  hover:", await text(page.locator(".monaco-hover:not(.hidden)")));
    await shot("hover");
    await page.keyboard.press("Escape");
  },
  async problems() {
    await page.keyboard.press("Control+Shift+M");
    await shown(".markers-panel .monaco-list-row");
    log("  problems:", await text(page.locator(".markers-panel .monaco-list-rows")));
    await shot("problems");
    await page.keyboard.press("Control+Shift+M");
  },
  async cancel() {
    await startJob();
    await page.waitForTimeout(2500);
    await shot("job");
    await page.locator(".notification-toast .monaco-button", { hasText: "Cancel" }).click();
    await gone(optimizing, 8000);
    await page.keyboard.press("Escape");
  },
  async optimize() {
    await page.keyboard.press("Escape");
    await startJob();
    await shown(".monaco-diff-editor", 240000);
    await shown(".notification-toast:has-text('predicted')", 30000);
    await page.waitForTimeout(1500);
    await shot("diff");
    await page.locator(".notification-toast .monaco-button", { hasText: "Apply" }).click();
    await shown(".monaco-editor:not(.original-in-monaco-diff-editor) .view-lines >> text=__shared__", 30000);
    await page.waitForTimeout(500);
    await shot("applied");
    await page.keyboard.press("Control+Z");
    await page.waitForTimeout(800);
    if (await page.locator(".editor-instance .view-lines >> text=__shared__").count()) throw new Error("undo did not revert");
    await shot("undone");
  },
  async report() {
    await palette("OptiML: Show Report");
    await shown("iframe.webview", 30000);
    await page.waitForTimeout(2500);
    await shot("report");
  },
};
for (const [name, step] of Object.entries(steps)) {
  try {
    await step();
    log("ok  ", name);
  } catch (error) {
    log("FAIL", name, String(error).slice(0, 500));
    await shot(`fail-${name}`);
    process.exitCode = 1;
    await page.keyboard.press("Escape");
  }
}
await context.close();
