// Loaded by karma-electron (its option --require) into Electron's main process, before that opens its window.
'use strict';

const { app } = require('electron');

// karma-electron 7.1.0 and later call it, Electron has it since 12: without, no test is run. It is about windows that a
// page opens; the runner's page opens none.
app.on('web-contents-created', (_event, contents) => {
  if (!contents.setWindowOpenHandler) {
    contents.setWindowOpenHandler = () => undefined;
  }
});
