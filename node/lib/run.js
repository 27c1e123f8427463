'use strict';

// Runs haul as a child process. It writes its events to descriptor 3. haul waits when that pipe is
// full, so this side needs no queue.

const { spawn } = require('node:child_process');
const { existsSync } = require('node:fs');
const { join } = require('node:path');

const { AbortError, HaulError } = require('./errors.js');
const { Events } = require('./events.js');

/** Bytes kept of what haul prints on standard error, for runs that end before the first event. */
const MESSAGES_MAX = 64 * 1024;

/** Children that run. A process that exits doesn't leave them behind. */
const running = new Set();

function program(options) {
  if (options.program !== undefined) return options.program;
  const path = join(__dirname, '..', 'bin', `haul-${process.arch}`);
  if (existsSync(path)) return path;
  const message = `this package has no haul for ${process.platform} on ${process.arch}`;
  throw new HaulError(message, { code: 'ERR_HAUL_PLATFORM' });
}

function run(words, options) {
  const { signal, onProgress } = options;
  if (signal?.aborted) throw new AbortError(signal.reason);
  const [command, ...rest] = words;
  const events = new Events(onProgress);
  return new Promise((resolve, reject) => {
    // Too many arguments are thrown; other failures to start are an event. Without descriptors
    // for the pipes there are no streams, and no end follows.
    const child = start(program(options), [command, '--events=fd:3', ...rest]);
    if (child.stdio === undefined) {
      child.on('error', (cause) => reject(notStarted(cause)));
      return;
    }
    running.add(child);
    let messages = '';
    let failure = null;
    // haul removes what is incomplete before a signal ends it; its end is waited for below.
    const stop = () => child.kill('SIGINT');
    const fail = (error) => {
      failure ??= error;
      stop();
    };
    child.stdio[3].on('data', (chunk) => {
      if (failure !== null) return;
      try {
        events.push(chunk);
      } catch (error) {
        fail(error);
      }
    });
    child.stderr.on('data', (chunk) => {
      messages = (messages + chunk).slice(-MESSAGES_MAX);
    });
    // A reset of these sockets comes with the end of the child, which is reported.
    child.stdio[3].on('error', () => {});
    child.stderr.on('error', () => {});
    child.on('error', (cause) => {
      if (child.pid === undefined) failure = notStarted(cause);
    });
    child.on('close', (exitCode, signalName) => {
      running.delete(child);
      signal?.removeEventListener('abort', stop);
      if (failure !== null) return reject(failure);
      const { statistics, warnings } = events;
      if (exitCode === 0 && statistics !== null) return resolve({ ...statistics, warnings });
      if (signal?.aborted && signalName === 'SIGINT') return reject(new AbortError(signal.reason));
      reject(failed(events, messages, exitCode, signalName));
    });
    signal?.addEventListener('abort', stop, { once: true });
  });
}

function start(path, words) {
  // Progress is an event; lines about it would only fill the messages.
  const env = { ...process.env, HAUL_PROGRESS: 'never' };
  if (running.size === 0 && process.listeners('exit').indexOf(stopAll) === -1) {
    process.on('exit', stopAll);
  }
  try {
    return spawn(path, words, { env, stdio: ['ignore', 'ignore', 'pipe', 'pipe'] });
  } catch (cause) {
    throw notStarted(cause);
  }
}

function notStarted(cause) {
  return new HaulError(`cannot run haul: ${cause.message}`, { cause, code: cause.code });
}

function stopAll() {
  running.forEach((child) => child.kill('SIGINT'));
}

function failed(events, messages, exitCode, signal) {
  const { problems, problemCount, warnings, statistics } = events;
  const details = { problems, problemCount, warnings, statistics, exitCode, signal };
  const ending = signal === null ? `haul exited with status ${exitCode}` : `haul was ended by ${signal}`;
  let message = problems[0]?.message ?? (messages.trim() || ending);
  if (problemCount > 1) message += ` (and ${problemCount - 1} more)`;
  return new HaulError(message, details);
}

module.exports = { run };
