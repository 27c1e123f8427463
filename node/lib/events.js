'use strict';

// Reads haul's events (JSON Lines). Almost all of them are about single files that went well; these
// are recognised by their first bytes and dropped without being parsed, so a copy of a million
// files costs the event loop little. What is kept is bounded.

const { getSystemErrorName } = require('node:util');

/** Problems and warnings that are kept; the others are only counted. */
const KEPT_MAX = 1000;

/** `{"time":"2026-03-01T04:00:00.012Z",` comes before the event's name, and its length is fixed. */
const NAME_OFFSET = 35;
const FILE_EVENT = Buffer.from('"event":"file"');
const NEWLINE = 10;

class Events {
  constructor(onProgress) {
    this.problems = [];
    this.problemCount = 0;
    this.warnings = [];
    this.statistics = null;
    this.onProgress = onProgress;
    /** The beginning of a line whose end has not arrived. */
    this.partial = [];
  }

  /** Takes a chunk of bytes, which may end anywhere. */
  push(chunk) {
    let start = 0;
    for (let end; (end = chunk.indexOf(NEWLINE, start)) !== -1; start = end + 1) {
      let line = chunk.subarray(start, end);
      if (this.partial.length > 0) {
        line = Buffer.concat([...this.partial, line]);
        this.partial = [];
      }
      this.line(line);
    }
    if (start < chunk.length) this.partial.push(chunk.subarray(start));
  }

  line(line) {
    const name = line.subarray(NAME_OFFSET, NAME_OFFSET + FILE_EVENT.length);
    if (name.equals(FILE_EVENT)) return;
    const event = JSON.parse(line.toString());
    if (event.event === 'error') {
      this.problemCount += 1;
      if (this.problems.length < KEPT_MAX) this.problems.push(problemOf(event));
    } else if (event.event === 'warning') {
      if (this.warnings.length < KEPT_MAX) this.warnings.push(problemOf(event));
    } else if (event.event === 'progress') {
      this.onProgress?.(progressOf(event));
    } else if (event.event === 'end') {
      this.statistics = statisticsOf(event.statistics);
    }
  }
}

function problemOf({ kind, message, path, path_b64: bytes, call, errno, host }) {
  const problem = { kind, message };
  if (bytes !== undefined) problem.path = Buffer.from(bytes, 'base64');
  if (path !== undefined) problem.path = path;
  if (call !== undefined) problem.syscall = call;
  if (host !== undefined) problem.host = host;
  if (errno !== undefined) {
    // Node's error numbers are negative. Some numbers of Linux have no name there.
    problem.errno = -errno;
    const name = getSystemErrorName(-errno);
    problem.code = name.startsWith('E') ? name : `ERRNO_${errno}`;
  }
  return problem;
}

function progressOf(event) {
  const { seconds, found, finished, files, bytes } = event;
  const progress = { seconds, found, finished, files, bytes, waitsForRoom: event.waits_for_room };
  if (event.total_entries !== undefined) progress.totalEntries = event.total_entries;
  if (event.total_bytes !== undefined) progress.totalBytes = event.total_bytes;
  return progress;
}

/** The members of `--stats=json`, named as in JavaScript. */
function statisticsOf(statistics) {
  const camel = (name) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(statistics).map(([name, value]) => [camel(name), value]));
}

module.exports = { Events };
