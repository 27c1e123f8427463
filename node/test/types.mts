// Not run: the declarations also fit the default export of the ES module.

import haul, { copyTree, type Result } from 'haul-copy';

export const result: Promise<Result> = haul.copyTree('a', 'b');
export const same: typeof copyTree = haul.copyTree;
