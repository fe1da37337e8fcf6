import * as vscode from "vscode";
import { LanguageClient } from "vscode-languageclient/node";

interface KernelLens {
  readonly range: { start: { line: number } };
  readonly data?: { kernel: string; kind: string };
}

/** The qualified name of the kernel at or above the cursor, by the server's own lenses. */
export async function kernelAtCursor(client: LanguageClient): Promise<{ document: vscode.Uri; kernel: string } | undefined> {
  const editor = vscode.window.activeTextEditor;
  if (!editor) return undefined;
  const uri = client.code2ProtocolConverter.asUri(editor.document.uri);
  const lenses = (await client.sendRequest<KernelLens[] | null>("textDocument/codeLens", { textDocument: { uri } })) ?? [];
  const names = lenses.filter((lens) => lens.data?.kind === "optimize");
  const line = editor.selection.active.line;
  const above = names.filter((lens) => lens.range.start.line <= line);
  const chosen = above[above.length - 1] ?? names[0];
  if (!chosen?.data) {
    void vscode.window.showInformationMessage("OptiML: there is no kernel in this file");
    return undefined;
  }
  return { document: editor.document.uri, kernel: chosen.data.kernel };
}
