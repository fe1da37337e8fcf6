import * as vscode from "vscode";

const panels = new Map<string, vscode.WebviewPanel>();

/**
 * Shows a report beside the code. The page is the server's self-contained HTML: it brings a content security policy
 * that forbids scripts and every remote resource, and scripts are off here as well.
 */
export function showReport(title: string, html: string): void {
  const known = panels.get(title);
  if (known) {
    known.webview.html = html;
    known.reveal(undefined, true);
    return;
  }
  const panel = vscode.window.createWebviewPanel(
    "optiml.report",
    title,
    { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true },
    { enableScripts: false, localResourceRoots: [], enableFindWidget: true },
  );
  panel.webview.html = html;
  panel.onDidDispose(() => panels.delete(title));
  panels.set(title, panel);
}
