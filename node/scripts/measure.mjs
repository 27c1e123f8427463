// Compares copyTree with Node's own ways to copy a tree, and prints medians in milliseconds.
//
//     node scripts/measure.mjs FOLDER [ROUNDS]
//
// The small trees are copied 20 times a round. FOLDER must be on the file system to measure. haul is
// the one in bin/ (`npm pack` puts it there). The ways alternate within a round; targets are removed
// between them, and caches are warm. The memory is the peak so far, in this process, when copyTree
// has copied a tree that the others have not copied yet.

import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { fileURLToPath } from 'node:url';

import { copyTree } from '../index.mjs';

const haul = fileURLToPath(new URL(`../bin/haul-${process.arch}`, import.meta.url));
const [place, rounds = '5'] = process.argv.slice(2);

const WAYS = {
  copyTree: (source, target) => copyTree(source, target),
  'haul without events': (source, target) => promisify(execFile)(haul, ['cp', '-rT', source, target]),
  'fs.promises.cp': (source, target) => fs.promises.cp(source, target, { recursive: true }),
  'fs.cp': (source, target) => promisify(fs.cp)(source, target, { recursive: true }),
  'fs.cpSync': async (source, target) => fs.cpSync(source, target, { recursive: true }),
  'spawn of /bin/true': async () => once(spawn('/bin/true', { stdio: 'ignore' }), 'close'),
};

/** Makes directories with files of 4096 bytes. */
function make(folder, files, perDirectory) {
  for (let index = 0; index < files; index += 1) {
    const directory = join(folder, `d${Math.floor(index / perDirectory)}`);
    if (index % perDirectory === 0) fs.mkdirSync(directory, { recursive: true });
    fs.writeFileSync(join(directory, `f${index}`), Buffer.alloc(4096, index));
  }
}

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];

const base = fs.mkdtempSync(join(place, 'haul-measure-'));
try {
  for (const [files, repeats] of [[1, 20], [20, 20], [50_000, 1]]) {
    const source = join(base, `source-${files}`);
    make(source, files, 100);
    const times = Object.fromEntries(Object.keys(WAYS).map((name) => [name, []]));
    let memory;
    for (let round = 0; round < Number(rounds) * repeats; round += 1) {
      for (const [name, copy] of Object.entries(WAYS)) {
        const target = join(base, 'target');
        const began = performance.now();
        await copy(source, target);
        times[name].push(performance.now() - began);
        memory ??= process.resourceUsage().maxRSS;
        fs.rmSync(target, { recursive: true, force: true });
      }
    }
    for (const [name, values] of Object.entries(times)) {
      console.log(`${files} files\t${name}\t${median(values).toFixed(1)} ms`);
    }
    console.log(`${files} files\tpeak memory\t${Math.round(memory / 1024)} MiB`);
  }
} finally {
  fs.rmSync(base, { recursive: true, force: true });
}
