import * as vscode from "vscode";
import {
  CloseAction,
  ErrorAction,
  LanguageClient,
  LanguageClientOptions,
  ServerOptions,
  State,
} from "vscode-languageclient/node";
import { JobNotifications } from "./jobs";
import { kernelAtCursor } from "./kernels";
import { LANGUAGES, SECTION } from "./languages";
import { findPython, makeEnvironment } from "./python";
import { Answer, applyLast, compareLast, offerResult, reportOf } from "./results";

let client: LanguageClient | undefined;
let starting: Promise<void> = Promise.resolve();

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const output = vscode.window.createOutputChannel("OptiML", { log: true });
  const status = vscode.languages.createLanguageStatusItem("optiml.status", LANGUAGES.map((language) => ({ language })));
  status.name = "OptiML";
  status.command = { command: "optiml.client.showOutput", title: "Show output" };
  const jobs = new JobNotifications(() => client);
  context.subscriptions.push(output, status);

  const restart = (): Promise<void> => (starting = starting.then(() => start(context, output, status, jobs)));

  /** Runs `work` with the running client; says so once if there is none. */
  const withClient = (work: (client: LanguageClient) => Promise<void>) => async (): Promise<void> => {
    await starting;
    if (client?.state === State.Running) await work(client);
    else void vscode.window.showWarningMessage("OptiML: the server is not running", "Show Output").then((c) => c && output.show());
  };

  /** Runs one of the server's commands on the kernel at the cursor. */
  const onKernel = (command: string) =>
    withClient(async (running) => {
      const at = await kernelAtCursor(running);
      if (!at) return;
      const uri = running.code2ProtocolConverter.asUri(at.document);
      const answer = await running.sendRequest<Answer>("workspace/executeCommand", { command, arguments: [uri, at.kernel] });
      await offerResult(running, at.document, answer);
    });

  const commands: Record<string, () => Promise<void>> = {
    "optiml.client.optimize": onKernel("optiml.optimize"),
    "optiml.client.profile": onKernel("optiml.profile"),
    "optiml.client.verify": onKernel("optiml.verifyAgainstHead"),
    "optiml.client.synthesize": withClient(async (running) => {
      const editor = vscode.window.activeTextEditor;
      if (!editor) return;
      const uri = running.code2ProtocolConverter.asUri(editor.document.uri);
      await running.sendRequest("workspace/executeCommand", {
        command: "optiml.synthesize",
        arguments: [uri, editor.selection.active.line],
      });
    }),
    "optiml.client.showReport": withClient(async (running) => {
      const at = await kernelAtCursor(running);
      if (at) await reportOf(running, at.document, at.kernel);
    }),
    "optiml.client.compare": compareLast,
    "optiml.client.apply": withClient((running) => applyLast(running)),
    "optiml.client.importReport": withClient(async (running) => {
      const chosen = await vscode.window.showOpenDialog({
        title: "Import a Nsight Compute report",
        filters: { "Nsight Compute reports": ["ncu-rep"] },
      });
      if (!chosen?.length) return;
      await running.sendRequest("workspace/executeCommand", {
        command: "optiml.importReport",
        arguments: [chosen[0].fsPath],
      });
    }),
    "optiml.client.stop": withClient(async (running) => {
      await running.sendRequest("workspace/executeCommand", { command: "optiml.stopJob", arguments: [] });
    }),
    "optiml.client.restart": restart,
    "optiml.client.showOutput": async () => output.show(),
    "optiml.client.copyDebugInformation": withClient(async (running) => {
      const text = await running.sendRequest<string>("workspace/executeCommand", {
        command: "optiml.debugInformation",
        arguments: [],
      });
      await vscode.env.clipboard.writeText(text);
      void vscode.window.setStatusBarMessage("OptiML: debug information copied", 3000);
    }),
  };
  for (const [name, run] of Object.entries(commands)) {
    context.subscriptions.push(vscode.commands.registerCommand(name, run));
  }
  context.subscriptions.push(
    vscode.workspace.onDidGrantWorkspaceTrust(() => void restart()),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("optiml.python")) void restart();
    }),
  );
  await restart();
}

export async function deactivate(): Promise<void> {
  await client?.dispose();
}

async function start(
  context: vscode.ExtensionContext,
  output: vscode.LogOutputChannel,
  status: vscode.LanguageStatusItem,
  jobs: JobNotifications,
): Promise<void> {
  await client?.dispose().catch((error) => output.warn(`stopping the server failed: ${error}`));
  client = undefined;
  jobs.clear();
  status.busy = true;
  status.text = "OptiML starts";
  const { found, tried } = await findPython(context);
  for (const attempt of tried) output.info(`not ${attempt.command} (${attempt.origin}): ${attempt.problem}`);
  if (!found) {
    stopped(status, "no Python with the server");
    void offerEnvironment(context, output, tried[0]?.problem ?? "");
    return;
  }
  output.info(`server: ${found.command} (${found.origin})`);
  const serverOptions: ServerOptions = {
    command: found.command,
    args: ["-m", "optiml_server.main"],
    options: { env: { ...process.env, PYTHONUTF8: "1" } },
  };
  const clientOptions: LanguageClientOptions = {
    documentSelector: LANGUAGES.flatMap((language) => [
      { scheme: "file", language },
      { scheme: "untitled", language },
    ]),
    outputChannel: output,
    diagnosticPullOptions: { onChange: true, onSave: true },
    initializationOptions: { trusted: vscode.workspace.isTrusted, showsResults: true },
    initializationFailedHandler: () => false,
    errorHandler: {
      error: () => ({ action: ErrorAction.Continue, handled: true }),
      closed: () => {
        stopped(status, "the server stopped");
        return { action: CloseAction.DoNotRestart, handled: true };
      },
    },
    middleware: {
      handleWorkDoneProgress: (token, params, next) => jobs.handle(token, params, () => next(token, params)),
      executeCommand: async (command, args, next) => {
        const answer = (await next(command, args)) as Answer | undefined;
        const document = typeof args[0] === "string" ? vscode.Uri.parse(args[0]) : undefined;
        if (client && document && answer?.status) {
          if (command === "optiml.optimize" || command === "optiml.tryRewrite") await offerResult(client, document, answer);
          if (command === "optiml.showReport" && answer.html) await reportOf(client, document, String(args[1]));
        }
        return answer;
      },
    },
  };
  client = new LanguageClient(SECTION, "OptiML", serverOptions, clientOptions);
  client.onDidChangeState(({ newState }) => {
    if (newState === State.Running) {
      status.busy = false;
      status.severity = vscode.LanguageStatusSeverity.Information;
      status.text = vscode.workspace.isTrusted ? "OptiML" : "OptiML (untrusted: static findings only)";
      status.detail = found.origin;
    } else if (newState === State.Stopped) stopped(status, "the server stopped");
  });
  client.onNotification("optiml/status", (message: { state: string; message: string; jobs: number }) => {
    status.busy = message.state === "busy";
    status.detail = message.message || found.origin;
  });
  try {
    await client.start();
  } catch (error) {
    stopped(status, "the server did not start");
    const choice = await vscode.window.showErrorMessage(
      `OptiML: the server did not start: ${error}`,
      "Show Output",
      "Open Settings",
    );
    if (choice === "Show Output") output.show();
    if (choice === "Open Settings") await vscode.commands.executeCommand("workbench.action.openSettings", "optiml.python");
  }
}

function stopped(status: vscode.LanguageStatusItem, detail: string): void {
  status.busy = false;
  status.text = "OptiML stopped";
  status.detail = detail;
  status.severity = vscode.LanguageStatusSeverity.Error;
}

/** One message with the button that mends it; remembered if the user does not want to see it again. */
async function offerEnvironment(
  context: vscode.ExtensionContext,
  output: vscode.LogOutputChannel,
  problem: string,
): Promise<void> {
  if (context.globalState.get("optiml.noEnvironmentOffer")) return;
  const make = "Set Up Environment";
  const settings = "Open Settings";
  const never = "Don't Show Again";
  const text = `OptiML needs Python 3.11 or newer with the package optiml (${problem}). It can set up an environment of its own.`;
  const chosen = await vscode.window.showWarningMessage(text, make, settings, never);
  if (chosen === never) await context.globalState.update("optiml.noEnvironmentOffer", true);
  if (chosen === settings) await vscode.commands.executeCommand("workbench.action.openSettings", "optiml.python");
  if (chosen !== make) return;
  try {
    await vscode.window.withProgress(
      { location: vscode.ProgressLocation.Notification, title: "OptiML: setting up its environment" },
      () => makeEnvironment(context, output),
    );
    await vscode.commands.executeCommand("optiml.client.restart");
  } catch (error) {
    output.error(String(error));
    const choice = await vscode.window.showErrorMessage(`OptiML: the environment could not be made: ${error}`, "Show Output");
    if (choice) output.show();
  }
}
