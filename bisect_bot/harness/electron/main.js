// Electron's main process: opens the page that it is told to open, and tells what only it can see. It judges nothing.
// Words travel as lines of JSON over one connection to bisect-bot; when that closes, nobody needs us any more.
// Node 12 and Electron 9 run this too: no optional chaining, no ??, no newer API without a look whether it is there.
'use strict';

const { app, BrowserWindow, Menu, session } = require('electron');
const net = require('net');

const { port, token, profile } = JSON.parse(process.env.BISECT_BOT_ELECTRON);
delete process.env.BISECT_BOT_ELECTRON;
app.setPath('userData', profile);

// A GPU process that does not answer tells nothing of the page's.
const GPU_INFO_MS = 15000;

const channel = net.connect(port, '127.0.0.1');
channel.on('error', () => undefined);
channel.on('close', () => app.exit(0));

function tell(event, rest) {
  channel.write(`${JSON.stringify({ event, ...rest })}\n`);
}

const messageOf = (error) => String((error && error.message) || error);

// Electron's own way to tell of these is a window with a button.
process.on('uncaughtException', (error) => {
  tell('broken', { message: messageOf(error) });
  channel.end(() => app.exit(1));
});
process.on('unhandledRejection', (error) => tell('broken', { message: messageOf(error) }));

// --- what dies ------------------------------------------------------------------------------------------------------

const died = (what, reason, code) => tell('died', { what, reason: String(reason), code });

// Since Electron 11, and before that; those between say it twice.
app.on('child-process-gone', (_, details) => {
  if (details.reason !== 'clean-exit') {
    died(details.type === 'GPU' ? 'gpu' : 'other', details.reason, details.exitCode);
  }
});
app.on('gpu-process-crashed', (_, killed) => died('gpu', killed ? 'killed' : 'crashed', null));

function watch(contents) {
  let gone = false;
  const pageDied = (reason, code) => {
    if (!gone) {
      gone = true;
      died('page', reason, code);
    }
  };
  contents.on('render-process-gone', (_, details) => pageDied(details.reason, details.exitCode));
  contents.on('crashed', (_, killed) => pageDied(killed ? 'killed' : 'crashed', null));
  contents.on('did-navigate', (_, url) => tell('navigated', { url }));
  contents.on('did-fail-load', (_, code, description, url, isMainFrame) => {
    if (isMainFrame && description !== 'ERR_ABORTED') {
      tell('navigated', { url: `${description} ${url}` });
    }
  });
  // The page keeps what is logged; here come the words of the browser itself, since Electron 35 in the event.
  contents.on('console-message', (event, level, message) => {
    console.log(`page: ${message === undefined ? event.message : message}`);
  });
  contents.on('will-prevent-unload', (event) => event.preventDefault());
  contents.setWebRTCIPHandlingPolicy('disable_non_proxied_udp');
  if (contents.setWindowOpenHandler) {
    contents.setWindowOpenHandler(() => ({ action: 'deny' }));
  } else {
    contents.on('new-window', (event) => event.preventDefault());
  }
}

// --- what is asked of it --------------------------------------------------------------------------------------------

let window = null;

const commands = {
  open: ({ url }) => window.loadURL(url),
  // The script's value has to be JSON.
  evaluate: ({ script }) => window.webContents.executeJavaScript(script),
};

async function obey(line) {
  const command = JSON.parse(line);
  try {
    const value = await commands[command.do](command);
    tell('done', { id: command.id, value: value === undefined ? null : value });
  } catch (error) {
    tell('done', { id: command.id, error: messageOf(error) });
  }
}

function listen() {
  let rest = '';
  channel.setEncoding('utf8');
  channel.on('data', (text) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop();
    lines.forEach(obey);
  });
}

async function gpuInfo() {
  const late = new Promise((resolve) => setTimeout(resolve, GPU_INFO_MS, null));
  try {
    return await Promise.race([app.getGPUInfo('complete'), late]);
  } catch (error) {
    return null;
  }
}

app.on('window-all-closed', () => undefined); // the default is to quit, without a word about the page

app.whenReady().then(async () => {
  Menu.setApplicationMenu(null);
  session.defaultSession.setPermissionRequestHandler((contents, permission, callback) => callback(false));
  window = new BrowserWindow({
    show: false,
    webPreferences: {
      nodeIntegration: false,
      contextIsolation: true,
      sandbox: true,
      enableRemoteModule: false,
      backgroundThrottling: false,
      disableDialogs: true,
      spellcheck: false,
    },
  });
  window.on('closed', () => tell('navigated', { url: 'the window was closed' }));
  watch(window.webContents);
  listen();
  // A GPU process that cannot use the GPU may die and start again in another way: that is over when it tells of itself.
  tell('ready', { token, versions: process.versions, gpu: await gpuInfo() });
});
