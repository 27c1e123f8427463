import { copyTree, sync, HaulError } from './index.js';

export * from './index.js';

declare const haul: { copyTree: typeof copyTree; sync: typeof sync; HaulError: typeof HaulError };
export default haul;
