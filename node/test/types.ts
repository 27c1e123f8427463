// Not run: `tsc --strict` checks that the declarations fit how the package is used.

import { constants } from 'node:fs';
import { copyTree, sync, HaulError, type CopyOptions, type Problem, type Result } from 'haul-copy';

export async function clone(source: URL, signal: AbortSignal): Promise<number> {
  const options: CopyOptions = {
    recursive: true,
    force: false,
    errorOnExist: true,
    mode: constants.COPYFILE_FICLONE,
    exclude: ['*.o'],
    verify: 'both',
    onProgress: ({ finished, totalEntries }) => console.log(finished, totalEntries ?? '?'),
    signal,
  };
  const result: Result = await copyTree(source, Buffer.from('target'), options);
  const { deleted }: Result = await sync('a', 'b', { delete: true, maxDelete: '10%' });
  return result.files + deleted + (result.peakMemoryBytes ?? 0);
}

export function names(error: unknown): string[] {
  if (!(error instanceof HaulError)) throw error;
  return error.problems.map(({ path, code }: Problem) => `${code ?? '?'} ${path?.toString() ?? ''}`);
}

// @ts-expect-error: a filter function is not supported.
void copyTree('a', 'b', { filter: () => true });
// @ts-expect-error: directories are always copied.
void copyTree('a', 'b', { recursive: false });
// @ts-expect-error: sync replaces existing files.
void sync('a', 'b', { force: false });
