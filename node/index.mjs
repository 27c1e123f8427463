import haul from './index.js';

export const { copyTree, sync, HaulError } = haul;
export default haul;
