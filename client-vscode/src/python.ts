import { execFile } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";

/** A Python that can run the server, and how it was found. */
export interface FoundPython {
  readonly command: string;
  readonly origin: string;
}

/** What was tried, for the log and for the one message if nothing works. */
export interface Tried {
  readonly command: string;
  readonly origin: string;
  readonly problem: string;
}

const CHECK = "import sys; assert sys.version_info >= (3, 11), 'Python 3.11 or newer is needed'; import optiml_server.main";
const CHECK_MILLISECONDS = 20_000;

/** The environment that the extension makes for itself on consent. */
export function ownEnvironment(context: vscode.ExtensionContext): string {
  return path.join(context.globalStorageUri.fsPath, "environment");
}

/** Whether `command` can run the server; the reason if not. Nothing is executed through a shell. */
export function problemOf(command: string): Promise<string> {
  return new Promise((resolve) => {
    execFile(command, ["-c", CHECK], { timeout: CHECK_MILLISECONDS }, (error, _stdout, stderr) => {
      if (!error) return resolve("");
      const lines = stderr.trim().split("\n");
      resolve(lines[lines.length - 1] || error.message);
    });
  });
}

/** Looks for a Python in the documented order; the first that can run the server wins. */
export async function findPython(context: vscode.ExtensionContext): Promise<{ found?: FoundPython; tried: Tried[] }> {
  const tried: Tried[] = [];
  for (const candidate of await candidates(context)) {
    const problem = await problemOf(candidate.command);
    if (!problem) return { found: candidate, tried };
    tried.push({ ...candidate, problem });
    // A setting is an order: if it does not work, the user must know rather than get another Python.
    if (candidate.origin === "the setting optiml.python") break;
  }
  return { tried };
}

async function candidates(context: vscode.ExtensionContext): Promise<FoundPython[]> {
  const found: FoundPython[] = [];
  const setting = vscode.workspace.getConfiguration("optiml").get<string>("python", "").trim();
  if (setting) found.push({ command: setting, origin: "the setting optiml.python" });
  const own = path.join(ownEnvironment(context), "bin", "python");
  if (fs.existsSync(own)) found.push({ command: own, origin: "OptiML's own environment" });
  const selected = vscode.workspace.isTrusted ? await pythonExtensionInterpreter() : undefined;
  if (selected) found.push({ command: selected, origin: "the Python extension" });
  found.push({ command: "python3", origin: "PATH" });
  return found;
}

async function pythonExtensionInterpreter(): Promise<string | undefined> {
  const extension = vscode.extensions.getExtension<{
    environments?: { getActiveEnvironmentPath(resource?: vscode.Uri): { path: string } };
  }>("ms-python.python");
  if (!extension) return undefined;
  try {
    const api = extension.isActive ? extension.exports : await extension.activate();
    return api.environments?.getActiveEnvironmentPath(vscode.workspace.workspaceFolders?.[0]?.uri)?.path;
  } catch {
    return undefined; // Its trouble is not ours; the search goes on.
  }
}

/** Makes the extension's own environment: from the wheels it carries, else from the package index. */
export async function makeEnvironment(
  context: vscode.ExtensionContext,
  output: vscode.LogOutputChannel,
): Promise<string> {
  const target = ownEnvironment(context);
  const wheels = context.asAbsolutePath(path.join("client-vscode", "wheels"));
  const carried = fs.existsSync(wheels);
  await fs.promises.mkdir(path.dirname(target), { recursive: true });
  await run("python3", ["-m", "venv", "--clear", target], output);
  const python = path.join(target, "bin", "python");
  const source = carried ? ["--no-index", "--find-links", wheels] : [];
  await run(python, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...source, "optiml"], output);
  return python;
}

function run(command: string, args: string[], output: vscode.LogOutputChannel): Promise<void> {
  output.info(`${command} ${args.join(" ")}`);
  return new Promise((resolve, reject) => {
    execFile(command, args, { timeout: 600_000, maxBuffer: 16 << 20 }, (error, stdout, stderr) => {
      if (stdout.trim()) output.info(stdout.trim());
      if (stderr.trim()) output.info(stderr.trim());
      if (error) reject(new Error(stderr.trim().split("\n").pop() || error.message));
      else resolve();
    });
  });
}
