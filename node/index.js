'use strict';

const { copyArguments, syncArguments } = require('./lib/arguments.js');
const { HaulError } = require('./lib/errors.js');
const { run } = require('./lib/run.js');

/** Copies a file or tree to `target`, as `fs.promises.cp` does. */
async function copyTree(source, target, options = {}) {
  return run(copyArguments(source, target, options), options);
}

/** Makes the tree `target` equal to `source`, and leaves alone what already is. */
async function sync(source, target, options = {}) {
  return run(syncArguments(source, target, options), options);
}

module.exports = { copyTree, sync, HaulError };
