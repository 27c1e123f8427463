// Puts the haul binary of this machine's architecture and the licences into the package.
//
// HAUL_BINARY names the binary. Without it, the static one that `cargo xtask dist` has built is
// preferred, because it runs on every distribution; else haul is built, for this machine's C library
// and later ones.

import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const packageFolder = dirname(dirname(fileURLToPath(import.meta.url)));
const workspace = dirname(packageFolder);
const targetFolder = process.env.CARGO_TARGET_DIR ?? join(workspace, 'target');

/** `e_machine` of an ELF file, by Node's name of the architecture. */
const MACHINES = { x64: 62, arm64: 183 };
const PT_INTERP = 3;

/** True if a file is a static program for this architecture. */
function isStatic(path) {
  const file = readFileSync(path);
  if (file.readUInt32BE(0) !== 0x7f454c46 || file.readUInt16LE(18) !== MACHINES[process.arch]) {
    return false;
  }
  const [start, size, count] = [Number(file.readBigUInt64LE(32)), file.readUInt16LE(54), file.readUInt16LE(56)];
  const types = Array.from({ length: count }, (_, index) => file.readUInt32LE(start + index * size));
  return !types.includes(PT_INTERP);
}

function* filesBelow(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* filesBelow(path);
    else if (entry.isFile()) yield path;
  }
}

function findBinary() {
  if (process.env.HAUL_BINARY) return process.env.HAUL_BINARY;
  // Its archives are in `dist`, and what they are made of is here.
  const dist = join(targetFolder, 'dist-work');
  const shipped = existsSync(dist) ? [...filesBelow(dist)] : [];
  const found = shipped.find((path) => path.endsWith('/haul') && isStatic(path));
  if (found !== undefined) return found;
  const words = ['build', '--locked', '--release', '--package', 'haul-cli'];
  execFileSync('cargo', words, { cwd: workspace, stdio: ['ignore', 2, 2] });
  return join(targetFolder, 'release/haul');
}

const binary = findBinary();
const packed = join(packageFolder, 'bin', `haul-${process.arch}`);
mkdirSync(dirname(packed), { recursive: true });
copyFileSync(binary, packed);
chmodSync(packed, 0o755);
for (const name of ['LICENSE-APACHE', 'LICENSE-MIT']) {
  copyFileSync(join(workspace, name), join(packageFolder, name));
}
console.error(`${binary} -> ${packed}`);
