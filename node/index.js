'use strict';

const fs = require('node:fs/promises');
const path = require('node:path');

const { copyArguments, syncArguments } = require('./lib/arguments.js');
const { HaulError } = require('./lib/errors.js');
const { run } = require('./lib/run.js');

/** Copies a file or tree to `target`, as `fs.promises.cp` does. */
async function copyTree(source, target, options = {}) {
  const words = copyArguments(source, target, options);
  const [from, to] = words.slice(-2);
  // As `fs.cp` does. If it fails, haul says why.
  const isThere = await fs.lstat(from).then(() => true, () => false);
  if (isThere && !options.signal?.aborted) await fs.mkdir(path.dirname(to), { recursive: true }).catch(() => {});
  return run(words, options);
}

/** Makes the tree `target` equal to `source`, and leaves alone what already is. */
async function sync(source, target, options = {}) {
  return run(syncArguments(source, target, options), options);
}

module.exports = { copyTree, sync, HaulError };
