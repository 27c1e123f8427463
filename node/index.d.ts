/// <reference types="node" />

/** A path. A Buffer must be UTF-8. */
export type Path = string | Buffer | URL;

/** What all functions accept. */
export interface RunOptions {
  /** Worker threads. By default it depends on the processors and file systems. */
  jobs?: number;
  /** Reads each copy again and compares it: `true` is `'target'`, from the target's device. */
  verify?: boolean | 'target' | 'both' | 'stream';
  /** Waits until the copy is on storage: `true` is `'end'`. */
  fsync?: boolean | 'end' | 'each';
  /** Maximum bytes per second, at least 1024. */
  bandwidthLimit?: number;
  /** Skips entries that match these rules, in .gitignore syntax. */
  exclude?: string | readonly string[];
  /** Keeps entries that match, even if `exclude` or a .gitignore file excludes them. */
  include?: string | readonly string[];
  /** Leaves out what the .gitignore files in the source exclude. */
  gitignore?: boolean;
  /** Called about once a second. If it throws, the run is stopped and rejects with the error. */
  onProgress?: (progress: Progress) => void;
  /** Stops the run; the promise rejects with an AbortError once haul has cleaned up. */
  signal?: AbortSignal;
  /** Path of the haul to run. By default it is the one in this package. */
  program?: string;
}

/** Options of `copyTree`. The first block means what it means for `fs.cp`. */
export interface CopyOptions extends RunOptions {
  /** Directories are always copied with their contents. */
  recursive?: true;
  /** Follows symbolic links in the source. */
  dereference?: boolean;
  /** With `force: false`, an existing file is a problem. */
  errorOnExist?: boolean;
  /** Replaces existing files; the default is true. */
  force?: boolean;
  /** Sets access and modification times to those of the source. */
  preserveTimestamps?: boolean;
  /** Symbolic links are always copied as they are. */
  verbatimSymlinks?: true;
  /**
   * A combination of `fs.constants.COPYFILE_*`. With `COPYFILE_EXCL` existing files are kept, and
   * are problems, whatever `force` is; for `fs.cp` it has no effect.
   */
  mode?: number;

  /**
   * Preserves all: owner, times, hard links, access lists and extended attributes, as `cp -a`.
   * Extended attributes that the target's file system doesn't have are dropped silently.
   */
  archive?: boolean;
  /** Shares blocks with the source: if the file system can (the default), always or fail, never. */
  reflink?: 'auto' | 'always' | 'never';
}

export interface SyncOptions extends RunOptions {
  /** Deletes what only the target has, once everything else has succeeded. */
  delete?: boolean;
  /** Like `delete`, and also deletes what `exclude` leaves out. */
  deleteExcluded?: boolean;
  /** Deletes nothing if more entries than this, or this share (`'10%'`), would be deleted. */
  maxDelete?: number | `${number}%`;
  /** Finds changed files by contents instead of size and time. */
  checksum?: boolean;
  /** Counts what would be done, and changes nothing. */
  dryRun?: boolean;
  /** Follows symbolic links in the source. */
  dereference?: boolean;
  /** Shares blocks with the source. */
  reflink?: 'auto' | 'always' | 'never';
}

export interface Progress {
  /** Time since the start. */
  seconds: number;
  /** Entries seen so far. */
  found: number;
  /** Those of them that are complete. */
  finished: number;
  files: number;
  bytes: number;
  /** Entries in all, once they are counted. */
  totalEntries?: number;
  totalBytes?: number;
  /** True while the run waits for room on a full file system. */
  waitsForRoom: boolean;
}

/** What `haul --stats=json` prints. */
export interface Statistics {
  files: number;
  directories: number;
  symlinks: number;
  specials: number;
  hardLinks: number;
  skipped: number;
  excluded: number;
  unchanged: number;
  changed: number;
  mended: number;
  deleted: number;
  reflinked: number;
  retried: number;
  verified: number;
  repaired: number;
  problems: number;
  bytes: number;
  seconds: number;
  bytesPerSecond: number;
  filesPerSecond: number;
  userSeconds: number | null;
  systemSeconds: number | null;
  peakMemoryBytes: number | null;
  engine: string | null;
  jobs: number | null;
}

export interface Result extends Statistics {
  /** Messages that don't make the run fail; the first 1000. */
  warnings: Problem[];
}

/** An error or a warning about an entry. */
export interface Problem {
  /** What went wrong, as one word that stays the same between releases. */
  kind: string;
  /** The line that people read. */
  message: string;
  /** The first name in the message. A Buffer if it isn't UTF-8. */
  path?: string | Buffer;
  /** Name of the error number, such as `'EACCES'`. */
  code?: string;
  /** Error number, negative as in Node's own errors. */
  errno?: number;
  /** The system call that failed. */
  syscall?: string;
  /** The host where it happened, if there are several. */
  host?: string;
}

/** Something was not copied, or haul could not be run. */
export class HaulError extends Error {
  /** Code of the first problem that has one, else `'ERR_HAUL'` or why haul could not be run. */
  code: string;
  /** What failed; the first 1000. */
  problems: Problem[];
  /** How many failed. */
  problemCount: number;
  warnings: Problem[];
  /** Null if the run didn't begin or was killed. */
  statistics: Statistics | null;
  exitCode: number | null;
  signal: NodeJS.Signals | null;
}

/**
 * Copies a file or tree to `target`, as `fs.promises.cp` does. An existing directory is merged with,
 * and gets the permissions of its source.
 * Every entry is tried; rejects with a HaulError that lists those that failed.
 */
export function copyTree(source: Path, target: Path, options?: CopyOptions): Promise<Result>;

/** Makes the tree `target` equal to `source`, with all attributes. Skips what is unchanged. */
export function sync(source: Path, target: Path, options?: SyncOptions): Promise<Result>;
