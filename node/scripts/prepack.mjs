// Puts the haul binary of this machine's architecture and the licences into the package.
//
// HAUL_BINARY names the binary. Without it, the static one that `cargo xtask dist` has built is
// preferred, because it runs on every distribution; else haul is built, for this machine's C
// library and later ones. A binary of another architecture or version is refused: the package would
// fail where it is installed.

import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { closeSync, openSync, readSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const packageFolder = dirname(dirname(fileURLToPath(import.meta.url)));
const workspace = dirname(packageFolder);
const targetFolder = process.env.CARGO_TARGET_DIR ?? join(workspace, 'target');

const PT_INTERP = 3;

const ELF_HEADER_BYTES = 64;

const { version } = JSON.parse(readFileSync(join(packageFolder, 'package.json'), 'utf8'));

/** True if a file is a program for the architecture that this Node is for. */
function isForThisMachine(file) {
  const isElf = file.length >= ELF_HEADER_BYTES && file.readUInt32BE(0) === 0x7f454c46;
  // Class and byte order, and `e_machine`.
  const own = headerOf(process.execPath);
  return isElf && file.readUInt16BE(4) === own.readUInt16BE(4) && file.readUInt16LE(18) === own.readUInt16LE(18);
}

function headerOf(path) {
  const header = Buffer.alloc(ELF_HEADER_BYTES);
  const file = openSync(path);
  readSync(file, header);
  closeSync(file);
  return header;
}

/** True if a program needs no dynamic linker. */
function isStatic(file) {
  const [start, size, count] = [Number(file.readBigUInt64LE(32)), file.readUInt16LE(54), file.readUInt16LE(56)];
  const types = Array.from({ length: count }, (_, index) => file.readUInt32LE(start + index * size));
  return !types.includes(PT_INTERP);
}

/** Says why a file is not the haul to pack; `null` if it is. */
function refusal(path, file) {
  if (!isForThisMachine(file)) return `not a program for ${process.arch}`;
  const [printed] = execFileSync(path, ['--version'], { encoding: 'utf8' }).split('\n');
  return printed === `haul ${version}` ? null : `not haul ${version}: it says '${printed}'`;
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
  const found = shipped.filter((path) => path.endsWith('/haul')).find((path) => {
    const file = readFileSync(path);
    // Those of an earlier release may still be there.
    return isForThisMachine(file) && isStatic(file) && refusal(path, file) === null;
  });
  if (found !== undefined) return found;
  const words = ['build', '--locked', '--release', '--package', 'haul-cli'];
  execFileSync('cargo', words, { cwd: workspace, stdio: ['ignore', 2, 2] });
  return join(targetFolder, 'release/haul');
}

const binary = findBinary();
const why = refusal(binary, readFileSync(binary));
if (why !== null) {
  console.error(`${binary} is ${why}`);
  process.exit(1);
}
const packed = join(packageFolder, 'bin', `haul-${process.arch}`);
mkdirSync(dirname(packed), { recursive: true });
copyFileSync(binary, packed);
chmodSync(packed, 0o755);
for (const name of ['LICENSE-APACHE', 'LICENSE-MIT']) {
  copyFileSync(join(workspace, name), join(packageFolder, name));
}
console.error(`${binary} -> ${packed}`);
