-- Drives OptiML's server from Neovim (0.7 or newer) and writes what it saw as JSON; test_neovim.py judges it.
-- Environment: OPTIML_SERVER (a JSON list), OPTIML_FILE (a .cu file), OPTIML_SEEN (where the JSON goes).
local seen = { progress = {}, steps = {}, messages = {}, questions = {} }

local function finish(trouble)
  seen.trouble = trouble
  local file = assert(io.open(vim.env.OPTIML_SEEN, "w"))
  file:write(vim.fn.json_encode(seen))
  file:close()
  vim.cmd(trouble and "cquit!" or "qall!")
end

-- Waits for something to become true; a step that does not happen in time ends the drive, named.
local function wait(step, seconds, condition)
  local began = vim.loop.hrtime()
  if not vim.wait(seconds * 1000, condition, 20) then error("not in time: " .. step, 0) end
  table.insert(seen.steps, { step, (vim.loop.hrtime() - began) / 1e9 })
end

local function line_of(text)
  for index, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do
    if line:find(text, 1, true) then return index - 1 end
  end
  error("no line with " .. text, 0)
end

local function drive()
  vim.cmd("filetype on")
  vim.cmd("edit " .. vim.env.OPTIML_FILE)
  seen.filetype = vim.bo.filetype
  local handlers = {
    ["$/progress"] = function(_, params) table.insert(seen.progress, params) end,
    ["window/logMessage"] = function(_, params) table.insert(seen.messages, params.message) end,
    ["window/showMessage"] = function(_, params) table.insert(seen.messages, params.message) end,
    ["window/showMessageRequest"] = function(_, params)
      table.insert(seen.questions, params.message)
      return params.actions[1]
    end,
  }
  local apply = vim.lsp.handlers["workspace/applyEdit"]
  handlers["workspace/applyEdit"] = function(...)
    local reply = apply(...)
    seen.edit_applied = reply.applied
    return reply
  end
  local id = vim.lsp.start_client({
    name = "optiml",
    cmd = vim.fn.json_decode(vim.env.OPTIML_SERVER),
    root_dir = vim.fn.fnamemodify(vim.env.OPTIML_FILE, ":h"),
    handlers = handlers,
  })
  vim.lsp.buf_attach_client(0, id)
  local client = vim.lsp.get_client_by_id(id)
  wait("initialize", 60, function() return client.initialized and client.server_capabilities.hoverProvider end)
  seen.pid = client.rpc.pid
  seen.pulls_diagnostics = vim.lsp.protocol.make_client_capabilities().textDocument.diagnostic ~= nil
  local settings = { optiml = { runOnOpen = false, device = "emulator", seconds = 60, rewritesOnly = true } }
  client.config.settings = settings
  client.notify("workspace/didChangeConfiguration", { settings = settings })

  local function ask(step, method, extra, seconds)
    local answer
    local params = vim.tbl_extend("force", { textDocument = vim.lsp.util.make_text_document_params(0) }, extra or {})
    client.request(method, params, function(trouble, result) answer = { trouble, result } end, 0)
    wait(step, seconds or 20, function() return answer ~= nil end)
    if answer[1] then error(step .. ": " .. vim.inspect(answer[1]), 0) end
    return answer[2]
  end
  local uri = vim.uri_from_bufnr(0)
  local function execute(step, command, arguments, seconds)
    return ask(step, "workspace/executeCommand", { command = command, arguments = arguments }, seconds)
  end

  seen.profile = execute("profile", "optiml.profile", { uri, "transpose" }, 90)
  wait("diagnostics", 20, function()
    seen.diagnostics = vim.diagnostic.get(0)
    return vim.tbl_count(vim.tbl_filter(function(d) return d.code == "uncoalesced-access" end, seen.diagnostics)) > 0
  end)
  local kernel = line_of("__global__")
  local hover = ask("hover", "textDocument/hover", { position = { line = kernel, character = 20 } })
  seen.hover = hover and hover.contents.value

  vim.lsp.codelens.refresh()
  wait("lenses", 20, function()
    seen.lenses = vim.tbl_map(function(l) return l.command and l.command.title or "" end, vim.lsp.codelens.get(0))
    return #seen.lenses == 3 and not vim.tbl_contains(seen.lenses, "")
  end)

  -- The way a person does it: the cursor on the finding, the menu of actions, the quick fix, Apply.
  local store = line_of("out[x * rows")
  vim.api.nvim_win_set_cursor(0, { store + 1, 4 })
  vim.ui.select = function(items, _, on_choice)
    seen.actions = vim.tbl_map(function(item) return (item.action or item[2]).title end, items)
    for index, title in ipairs(seen.actions) do
      if title:find("^Verify and apply ") and title:find("shared-tile-transpose", 1, true) then return on_choice(items[index], index) end
    end
    on_choice(nil)
  end
  vim.lsp.buf.code_action()
  wait("the fix is applied", 150, function() return seen.edit_applied ~= nil end)
  seen.after = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n") .. "\n"
  vim.cmd("silent undo")
  seen.undone = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n") .. "\n"

  seen.progress_of_fix, seen.progress = seen.progress, {}
  local job
  client.request("workspace/executeCommand", { command = "optiml.optimize", arguments = { uri, "transpose" } },
    function(trouble, result) job = result or trouble end, 0)
  wait("the search reports", 90, function() return #seen.progress > 2 end)
  client.notify("window/workDoneProgress/cancel", { token = seen.progress[1].token })
  wait("cancel", 15, function() return job ~= nil end)
  seen.cancelled_job = job

  client.stop()
  wait("stop", 15, function() return client.is_stopped() end)
end

local fine, trouble = pcall(drive)
finish(not fine and tostring(trouble) or nil)
