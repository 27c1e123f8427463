'use strict';

// Turns options into haul's command line. An unknown option is an error: a misspelled `exclude`
// must not copy what it should leave out.

const { constants } = require('node:fs');
const { fileURLToPath } = require('node:url');

const { invalidArgument } = require('./errors.js');

const RUN = ['jobs', 'verify', 'fsync', 'bandwidthLimit', 'onProgress', 'signal', 'program'];
const SELECTION = ['exclude', 'include', 'gitignore'];
const COPY = ['recursive', 'dereference', 'errorOnExist', 'force', 'preserveTimestamps'];
const COPY_OPTIONS = [...RUN, ...SELECTION, ...COPY, 'archive', 'verbatimSymlinks', 'mode', 'reflink'];
const SYNC = ['delete', 'deleteExcluded', 'maxDelete', 'checksum', 'dryRun', 'dereference', 'reflink'];
const SYNC_OPTIONS = [...RUN, ...SELECTION, ...SYNC];

const REFLINK = ['auto', 'always', 'never'];
const VERIFY = ['target', 'both', 'stream'];
const FSYNC = ['end', 'each'];

function copyArguments(source, target, options) {
  checkNames(options, COPY_OPTIONS);
  fixed(options, 'recursive', 'directories are always copied with their contents');
  fixed(options, 'verbatimSymlinks', 'symbolic links are always copied as they are');
  const words = ['cp', '-r', '--no-target-directory'];
  words.push(flag(options, 'dereference') ? '--dereference' : '--no-dereference');
  words.push(...preserved(options), ...replacement(options), ...cloning(options));
  words.push(...selection(options), ...running(options));
  return [...words, '--', operand(source, 'source'), operand(target, 'target')];
}

function syncArguments(source, target, options) {
  checkNames(options, SYNC_OPTIONS);
  const words = ['sync'];
  const named = { delete: '--delete', deleteExcluded: '--delete-excluded', checksum: '--checksum' };
  Object.assign(named, { dryRun: '--dry-run', dereference: '--dereference' });
  for (const [name, word] of Object.entries(named)) {
    if (flag(options, name)) words.push(word);
  }
  const { maxDelete } = options;
  if (maxDelete !== undefined) {
    const isShare = typeof maxDelete === 'string' && /^\d+%$/.test(maxDelete);
    if (!isShare) whole(maxDelete, 'maxDelete', 0);
    words.push(`--max-delete=${maxDelete}`);
  }
  words.push(...oneOf(options, 'reflink', REFLINK), ...selection(options), ...running(options));
  return [...words, '--', operand(source, 'source'), operand(target, 'target')];
}

function checkNames(options, known) {
  if (options === null || typeof options !== 'object') {
    throw invalidArgument('options must be an object');
  }
  if (options.filter !== undefined) {
    throw invalidArgument('filter is not supported: use exclude, include or gitignore');
  }
  const given = Object.keys(options).filter((name) => options[name] !== undefined);
  const unknown = given.find((name) => !known.includes(name));
  if (unknown !== undefined) throw invalidArgument(`unknown option ${unknown}`);
  const { onProgress, program, signal } = options;
  if (program !== undefined && typeof program !== 'string') {
    throw invalidArgument('program must be a path');
  }
  if (onProgress !== undefined && typeof onProgress !== 'function') {
    throw invalidArgument('onProgress must be a function');
  }
  if (signal !== undefined && typeof signal?.addEventListener !== 'function') {
    throw invalidArgument('signal must be an AbortSignal');
  }
}

/** `fs.cp` preserves permissions always, and times when told to. */
function preserved(options) {
  if (flag(options, 'archive')) return ['--preserve=all'];
  return [flag(options, 'preserveTimestamps') ? '--preserve=mode,timestamps' : '--preserve=mode'];
}

/** `fs.cp` removes an existing file and makes a new one; it doesn't write through hard links. */
function replacement(options) {
  const mode = options.mode ?? 0;
  const isExclusive = (mode & constants.COPYFILE_EXCL) !== 0;
  if (flag(options, 'force', true) && !isExclusive) return ['--remove-destination'];
  const isError = isExclusive || flag(options, 'errorOnExist');
  return [isError ? '--update=none-fail' : '--update=none'];
}

function cloning(options) {
  const { mode } = options;
  if (mode === undefined) return oneOf(options, 'reflink', REFLINK);
  const known =
    constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE | constants.COPYFILE_FICLONE_FORCE;
  if (!Number.isInteger(mode) || (mode & ~known) !== 0) {
    throw invalidArgument('mode must be a combination of the COPYFILE_ constants of fs');
  }
  if (options.reflink !== undefined) throw invalidArgument('give either mode or reflink');
  if (mode & constants.COPYFILE_FICLONE_FORCE) return ['--reflink=always'];
  return mode & constants.COPYFILE_FICLONE ? ['--reflink=auto'] : [];
}

/** Later rules win, so what is included goes last. */
function selection(options) {
  const words = [];
  for (const name of ['exclude', 'include']) {
    for (const glob of [options[name] ?? []].flat()) {
      if (typeof glob !== 'string') throw invalidArgument(`${name} must be a string or strings`);
      words.push(`--${name}=${glob}`);
    }
  }
  if (flag(options, 'gitignore')) words.push('--gitignore');
  return words;
}

function running(options) {
  const words = [...orTrue(options, 'verify', VERIFY), ...orTrue(options, 'fsync', FSYNC)];
  if (options.jobs !== undefined) words.push(`--jobs=${whole(options.jobs, 'jobs', 1)}`);
  if (options.bandwidthLimit !== undefined) {
    const limit = whole(options.bandwidthLimit, 'bandwidthLimit', 1024);
    words.push(`--bwlimit=${Math.floor(limit / 1024)}K`);
  }
  return words;
}

function flag(options, name, byDefault = false) {
  const value = options[name] ?? byDefault;
  if (typeof value !== 'boolean') throw invalidArgument(`${name} must be true or false`);
  return value;
}

function fixed(options, name, why) {
  if (!flag(options, name, true)) throw invalidArgument(`${name} can only be true: ${why}`);
}

function oneOf(options, name, values) {
  const value = options[name];
  if (value === undefined) return [];
  if (!values.includes(value)) {
    throw invalidArgument(`${name} must be one of ${values.join(', ')}`);
  }
  return [`--${name}=${value}`];
}

function orTrue(options, name, values) {
  const value = options[name];
  if (typeof value !== 'boolean') return oneOf(options, name, values);
  return value ? [`--${name}`] : [];
}

function whole(value, name, least) {
  if (!Number.isSafeInteger(value) || value < least) {
    throw invalidArgument(`${name} must be a whole number of at least ${least}`);
  }
  return value;
}

/** An argument of a program is a string in Node: names that aren't UTF-8 can't be operands. */
function operand(path, name) {
  let text = path;
  if (path instanceof URL) {
    text = fileURLToPath(path);
  } else if (Buffer.isBuffer(path)) {
    text = path.toString();
    if (!Buffer.from(text).equals(path)) throw invalidArgument(`${name} must be UTF-8`);
  }
  if (typeof text !== 'string' || text === '' || text.includes('\0')) {
    throw invalidArgument(`${name} must be a path without NUL: a string, Buffer or file: URL`);
  }
  return text;
}

module.exports = { copyArguments, syncArguments };
