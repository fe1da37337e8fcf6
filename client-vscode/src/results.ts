import * as path from "node:path";
import * as vscode from "vscode";
import { LanguageClient } from "vscode-languageclient/node";
import { showReport } from "./report";

/** What the server's commands answer; every field but `status` depends on it. */
export interface Answer {
  readonly status: string;
  readonly message?: string;
  readonly job?: string;
  readonly kernel?: string;
  readonly summary?: string;
  readonly candidate?: string | null;
  readonly html?: string;
  readonly title?: string;
}

/** The last result, so that it can be compared and applied later. */
let last: { answer: Answer; document: vscode.Uri } | undefined;

/** Shows a finished search: the diff first, then one question. Nothing is written without a yes. */
export async function offerResult(client: LanguageClient, document: vscode.Uri, answer: Answer): Promise<void> {
  if (answer.status === "no-improvement") {
    void vscode.window.showInformationMessage(`OptiML: ${answer.summary ?? "no improvement"}`);
    return;
  }
  if (answer.status !== "better" || !answer.candidate) return;
  last = { answer, document };
  await compareLast();
  const apply = "Apply";
  const report = "Show Report";
  const chosen = await vscode.window.showInformationMessage(`OptiML: ${answer.summary ?? ""}`, apply, report);
  if (chosen === apply) await applyLast(client);
  if (chosen === report) await reportOf(client, document, answer.kernel ?? "");
}

export async function compareLast(): Promise<void> {
  if (!last?.answer.candidate) {
    void vscode.window.showInformationMessage("OptiML: there is no result to compare with yet");
    return;
  }
  const candidate = vscode.Uri.parse(last.answer.candidate);
  const name = path.basename(last.document.fsPath);
  await vscode.commands.executeCommand(
    "vscode.diff",
    last.document,
    candidate,
    `${name}: ${last.answer.kernel ?? "kernel"}, original ↔ optimized`,
    { preview: true },
  );
}

export async function applyLast(client: LanguageClient): Promise<void> {
  if (!last?.answer.job) {
    void vscode.window.showInformationMessage("OptiML: there is no result to apply yet");
    return;
  }
  // The edit goes to the document itself, so it must be the one in front, not the diff.
  await vscode.window.showTextDocument(last.document, { preview: false });
  await client.sendRequest("workspace/executeCommand", { command: "optiml.applyResult", arguments: [last.answer.job] });
}

export async function reportOf(client: LanguageClient, document: vscode.Uri, kernel: string): Promise<void> {
  const answer = await client.sendRequest<Answer>("workspace/executeCommand", {
    command: "optiml.showReport",
    arguments: [client.code2ProtocolConverter.asUri(document), kernel],
  });
  if (answer.html) showReport(answer.title ?? "OptiML", answer.html);
  else void vscode.window.showInformationMessage(`OptiML: ${answer.message ?? "no report yet"}`);
}
