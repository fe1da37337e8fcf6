import * as vscode from "vscode";
import {
  LanguageClient,
  ProgressToken,
  WorkDoneProgressBegin,
  WorkDoneProgressCancelNotification,
  WorkDoneProgressEnd,
  WorkDoneProgressReport,
} from "vscode-languageclient/node";

interface ShownJob {
  report(progress: WorkDoneProgressReport): void;
  end(): void;
}

/**
 * Shows jobs as notifications with a Cancel button: the client library alone puts them in the status bar, where
 * Cancel is two clicks away.
 */
export class JobNotifications {
  private readonly shown = new Map<ProgressToken, ShownJob>();

  constructor(private readonly client: () => LanguageClient | undefined) {}

  handle(
    token: ProgressToken,
    params: WorkDoneProgressBegin | WorkDoneProgressReport | WorkDoneProgressEnd,
    next: () => void,
  ): void {
    const job = this.shown.get(token);
    if (params.kind === "begin" && params.cancellable) this.begin(token, params);
    else if (params.kind === "report" && job) job.report(params);
    else if (params.kind === "end" && job) {
      job.end();
      next(); // lets the library drop its own bookkeeping
    } else next();
  }

  /** Ends every notification: after a restart nobody would. */
  clear(): void {
    for (const job of [...this.shown.values()]) job.end();
  }

  private begin(token: ProgressToken, begin: WorkDoneProgressBegin): void {
    const options = { location: vscode.ProgressLocation.Notification, title: `OptiML: ${begin.title}`, cancellable: true };
    void vscode.window.withProgress(options, (progress, cancelled) => {
      cancelled.onCancellationRequested(
        () => void this.client()?.sendNotification(WorkDoneProgressCancelNotification.type, { token }),
      );
      return new Promise<void>((resolve) => {
        this.shown.set(token, {
          report: (reported) => progress.report({ message: reported.message }),
          end: () => {
            this.shown.delete(token);
            resolve();
          },
        });
      });
    });
  }
}
