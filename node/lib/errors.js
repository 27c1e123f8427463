'use strict';

/** Something was not copied, or haul could not be run. */
class HaulError extends Error {
  constructor(message, details) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'HaulError';
    this.problems = details.problems ?? [];
    this.problemCount = details.problemCount ?? this.problems.length;
    this.warnings = details.warnings ?? [];
    this.statistics = details.statistics ?? null;
    this.exitCode = details.exitCode ?? null;
    this.signal = details.signal ?? null;
    this.code = this.problems.find((problem) => problem.code)?.code ?? details.code ?? 'ERR_HAUL';
  }
}

/** What Node's own functions reject with when their signal is aborted. */
class AbortError extends Error {
  constructor(reason) {
    super('The operation was aborted', { cause: reason });
    this.name = 'AbortError';
    this.code = 'ABORT_ERR';
  }
}

function invalidArgument(message) {
  return Object.assign(new TypeError(message), { code: 'ERR_INVALID_ARG_VALUE' });
}

module.exports = { AbortError, HaulError, invalidArgument };
