// Runs inside VS Code's extension host with the installed VSIX; exports run(), as @vscode/test-electron expects.
const assert = require("node:assert/strict");
const vscode = require("vscode");

const until = async (what, probe, milliseconds = 60000) => {
  const end = Date.now() + milliseconds;
  for (;;) {
    const value = await probe();
    if (value) return value;
    if (Date.now() > end) throw new Error(`timed out: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
};
const ours = (document) => vscode.languages.getDiagnostics(document.uri).filter((one) => one.source === "OptiML");
const lenses = async (document) =>
  (await vscode.commands.executeCommand("vscode.executeCodeLensProvider", document.uri, 100)) ?? [];
const actionsAt = (document, range) =>
  vscode.commands.executeCommand("vscode.executeCodeActionProvider", document.uri, range);
const nameOf = (document) => document.positionAt(document.getText().search(/__global__ void \w/) + "__global__ void ".length);

async function open(name) {
  const uri = vscode.Uri.joinPath(vscode.workspace.workspaceFolders[0].uri, name);
  const document = await vscode.workspace.openTextDocument(uri);
  await vscode.window.showTextDocument(document, { preview: false });
  return document;
}

const tests = {
  async "every command of the manifest is registered"() {
    const extension = vscode.extensions.getExtension("optiml.optiml");
    await extension.activate();
    const known = await vscode.commands.getCommands(true);
    const declared = extension.packageJSON.contributes.commands.map((one) => one.command);
    assert.ok(declared.length >= 10);
    assert.deepEqual(declared.filter((one) => !known.includes(one)), []);
  },
  async "three lenses stand over each kernel, each with a command"() {
    const document = await open("transpose.cu");
    assert.match(document.languageId, /^cuda/);
    const found = await until("lenses", async () => {
      const all = await lenses(document);
      return all.length ? all : undefined;
    });
    assert.equal(found.length, 3);
    assert.deepEqual(found.map((one) => one.command?.command).sort(), ["optiml.optimize", "optiml.profile", "optiml.showReport"]);
  },
  async "hovering over a kernel's name shows its table"() {
    const document = await open("transpose.cu");
    // The file is profiled when it opens; until then the hover says that it is not.
    await until("a table", async () => {
      const all = await vscode.commands.executeCommand("vscode.executeHoverProvider", document.uri, nameOf(document));
      return all.some((one) => /predicted[^]*\|/.test(one.contents[0].value));
    });
  },
  async "findings stand on their lines, with a page that explains them"() {
    const document = await open("transpose.cu");
    const found = await until("findings", () => (ours(document).length ? ours(document) : undefined));
    for (const one of found) {
      assert.ok(one.severity >= vscode.DiagnosticSeverity.Information, "findings are no warnings");
      assert.match(String(one.code?.target), /^https:.*findings/);
    }
  },
  async "one quick fix a finding, and none of ours on save"() {
    const document = await open("transpose.cu");
    const finding = await until("a finding with a fix", async () => {
      for (const one of ours(document)) {
        const fixes = (await actionsAt(document, one.range)).filter((action) => /^Verify and apply /.test(action.title));
        if (fixes.length) return { one, fixes };
      }
      return undefined;
    });
    const here = ours(document).filter((one) => one.range.intersection(finding.one.range));
    assert.ok(finding.fixes.length <= here.length, `${finding.fixes.length} fixes for ${here.length} findings`);
    assert.ok(finding.fixes.every((action) => action.isPreferred && action.command.command === "optiml.tryRewrite"));
    const onSave = await vscode.commands.executeCommand(
      "vscode.executeCodeActionProvider", document.uri, finding.one.range, vscode.CodeActionKind.Source.value,
    );
    assert.deepEqual(onSave.map((action) => action.title).filter((title) => /optimi|verify/i.test(title)), []);
  },
  async "a kernel's actions have our own kind"() {
    const document = await open("transpose.cu");
    const at = nameOf(document);
    const actions = await until("actions", async () => {
      const all = await actionsAt(document, new vscode.Range(at, at));
      return all.some((action) => action.title === "Optimize kernel 'transpose'") ? all : undefined;
    });
    const optimize = actions.find((action) => action.title === "Optimize kernel 'transpose'");
    assert.equal(optimize.kind.value, "refactor.rewrite.optiml");
  },
  async "a switched-off lens goes at once and comes back"() {
    const document = await open("transpose.cu");
    const configuration = vscode.workspace.getConfiguration("optiml");
    await configuration.update("codeLens", false, vscode.ConfigurationTarget.Global);
    await until("no lenses", async () => (await lenses(document)).length === 0);
    await configuration.update("codeLens", undefined, vscode.ConfigurationTarget.Global);
    await until("lenses again", async () => (await lenses(document)).length === 3);
  },
  async "an unsaved, unclosed kernel still has its lenses"() {
    const document = await open("broken.cu");
    await until("lenses of broken code", async () => (await lenses(document)).length === 3);
    const edit = new vscode.WorkspaceEdit();
    edit.insert(document.uri, new vscode.Position(0, 0), "__global__ void second(float* y) { y[threadIdx.x] = 1.0f; }\n");
    await vscode.workspace.applyEdit(edit);
    await until("lenses of the unsaved kernel", async () => (await lenses(document)).length === 6);
    assert.ok(document.isDirty);
  },
  async "other languages get nothing of ours"() {
    const document = await open("plain.cpp");
    assert.deepEqual(await lenses(document), []);
    assert.deepEqual(ours(document), []);
  },
  async "the server restarts and answers again"() {
    await vscode.commands.executeCommand("optiml.client.restart");
    const document = await open("transpose.cu");
    await until("lenses after a restart", async () => (await lenses(document)).length === 3);
  },
};

exports.run = async () => {
  let failed = 0;
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test();
      console.log(`ok   ${name}`);
    } catch (error) {
      failed++;
      console.log(`FAIL ${name}: ${error.stack}`);
    }
  }
  console.log(`${Object.keys(tests).length - failed} passed, ${failed} failed`);
  if (failed) throw new Error(`${failed} failed`);
};
