'use strict';

// Run with NODE_PATH or a node_modules folder in which haul-copy is installed.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');
const { pathToFileURL } = require('node:url');

const { copyTree, sync, HaulError } = require('haul-copy');

/** Makes an empty folder that is removed after the test. */
function scratch(t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'haul-node-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Makes a folder with a source tree: two files, a directory and a relative link. */
function tree(t) {
  const folder = scratch(t);
  const source = path.join(folder, 'source');
  fs.mkdirSync(path.join(source, 'sub'), { recursive: true });
  fs.writeFileSync(path.join(source, 'a.txt'), 'first');
  fs.writeFileSync(path.join(source, 'sub/b.log'), 'second', { mode: 0o640 });
  fs.symlinkSync('a.txt', path.join(source, 'link'));
  fs.utimesSync(path.join(source, 'a.txt'), 1000, 1000);
  return { source, target: path.join(folder, 'target') };
}

test('a tree is copied as fs.cp does', async (t) => {
  const { source, target } = tree(t);
  const result = await copyTree(source, target);
  assert.equal(result.files, 2);
  assert.equal(result.directories, 2);
  assert.equal(result.symlinks, 1);
  assert.equal(result.bytes, 11);
  assert.deepEqual(result.warnings, []);
  assert.equal(fs.readFileSync(path.join(target, 'sub/b.log'), 'utf8'), 'second');
  assert.equal(fs.statSync(path.join(target, 'sub/b.log')).mode & 0o777, 0o640);
  assert.equal(fs.readlinkSync(path.join(target, 'link')), 'a.txt');
  assert.notEqual(fs.statSync(path.join(target, 'a.txt')).mtimeMs, 1000_000);
  // A second copy merges with the directory instead of going into it.
  await copyTree(pathToFileURL(source), Buffer.from(target), { preserveTimestamps: true });
  assert.deepEqual(fs.readdirSync(target).sort(), ['a.txt', 'link', 'sub']);
  assert.equal(fs.statSync(path.join(target, 'a.txt')).mtimeMs, 1000_000);
});

test('directories above the target are made, unless there is nothing to copy', async (t) => {
  const { source, target } = tree(t);
  await copyTree(source, path.join(target, 'x/y'));
  assert.deepEqual(fs.readdirSync(path.join(target, 'x/y')).sort(), ['a.txt', 'link', 'sub']);
  await assert.rejects(copyTree(path.join(source, 'missing'), path.join(target, 'n/y')), HaulError);
  assert.ok(!fs.existsSync(path.join(target, 'n')));
});

test('an ES module has the same functions', async () => {
  const imported = await import('haul-copy');
  assert.equal(imported.copyTree, copyTree);
  assert.equal(imported.sync, sync);
  assert.equal(imported.HaulError, HaulError);
});

test('dereference copies what a link leads to', async (t) => {
  const { source, target } = tree(t);
  await copyTree(source, target, { dereference: true });
  assert.ok(fs.lstatSync(path.join(target, 'link')).isFile());
});

test('exclude and include select, and a rule may begin with a dash', async (t) => {
  const { source, target } = tree(t);
  fs.writeFileSync(path.join(source, '-n'), '');
  fs.writeFileSync(path.join(source, 'c.log'), '');
  await copyTree(source, target, { exclude: ['*.log', '-n'], include: 'c.log' });
  assert.deepEqual(fs.readdirSync(target).sort(), ['a.txt', 'c.log', 'link', 'sub']);
  assert.deepEqual(fs.readdirSync(path.join(target, 'sub')), []);
});

test('force and errorOnExist decide about existing files', async (t) => {
  const { source, target } = tree(t);
  const kept = path.join(target, 'a.txt');
  fs.mkdirSync(target);
  fs.writeFileSync(kept, 'mine');
  const result = await copyTree(source, target, { force: false });
  assert.equal(result.skipped, 1);
  assert.equal(fs.readFileSync(kept, 'utf8'), 'mine');
  for (const options of [{ force: false, errorOnExist: true }, { mode: fs.constants.COPYFILE_EXCL }]) {
    await assert.rejects(copyTree(source, target, options), HaulError);
    assert.equal(fs.readFileSync(kept, 'utf8'), 'mine');
  }
  // What is another name of an existing file keeps its contents, as with fs.cp.
  const other = path.join(path.dirname(target), 'other');
  fs.linkSync(kept, other);
  await copyTree(source, target);
  assert.equal(fs.readFileSync(kept, 'utf8'), 'first');
  assert.equal(fs.readFileSync(other, 'utf8'), 'mine');
});

test('archive keeps hard links', async (t) => {
  const { source, target } = tree(t);
  fs.linkSync(path.join(source, 'a.txt'), path.join(source, 'same'));
  const result = await copyTree(source, target, { archive: true, verify: true, fsync: true, jobs: 2 });
  assert.equal(result.hardLinks, 1);
  assert.equal(result.verified, 2);
  assert.equal(result.jobs, 2);
  assert.equal(fs.statSync(path.join(target, 'same')).ino, fs.statSync(path.join(target, 'a.txt')).ino);
});

test('every problem is reported with its path and code, and the rest is copied', async (t) => {
  const { source, target } = tree(t);
  const name = Buffer.concat([Buffer.from(`${source}/`), Buffer.from([0x66, 0xff])]);
  fs.writeFileSync(name, 'bytes');
  fs.mkdirSync(path.join(target, 'a.txt'), { recursive: true });
  const inTheWay = Buffer.concat([Buffer.from(`${target}/`), Buffer.from([0x66, 0xff])]);
  fs.mkdirSync(inTheWay);
  const error = await copyTree(source, target).then(assert.fail, (error) => error);
  assert.ok(error instanceof HaulError);
  assert.equal(error.exitCode, 1);
  assert.equal(error.problemCount, 2);
  assert.equal(error.statistics.files, 1);
  assert.match(error.message, /^haul cp: cannot overwrite directory .* \(and 1 more\)$/);
  const paths = error.problems.map((problem) => problem.path);
  assert.ok(paths.includes(path.join(target, 'a.txt')));
  const bytes = paths.find(Buffer.isBuffer);
  assert.deepEqual(bytes, inTheWay);
  assert.ok(error.problems.every((problem) => problem.kind && problem.message));
  assert.equal(fs.readFileSync(path.join(target, 'sub/b.log'), 'utf8'), 'second');
});

test('a missing source is ENOENT', async (t) => {
  const { source, target } = tree(t);
  const missing = path.join(source, 'missing');
  await assert.rejects(copyTree(missing, target), (error) => {
    assert.equal(error.code, 'ENOENT');
    assert.deepEqual(
      error.problems.map(({ path, code, errno }) => ({ path, code, errno })),
      [{ path: missing, code: 'ENOENT', errno: -2 }],
    );
    return true;
  });
});

test('more problems than are kept are counted', async (t) => {
  const { source, target } = tree(t);
  for (let index = 0; index < 1100; index += 1) {
    fs.writeFileSync(path.join(source, `f${index}`), '');
    fs.mkdirSync(path.join(target, `f${index}`), { recursive: true });
  }
  const error = await copyTree(source, target).then(assert.fail, (error) => error);
  assert.equal(error.problemCount, 1100);
  assert.equal(error.problems.length, 1000);
  assert.match(error.message, /and 1099 more/);
});

test('wrong arguments are refused before anything runs', async (t) => {
  const { source, target } = tree(t);
  const wrong = [
    { recursive: false },
    { verbatimSymlinks: false },
    { filter: () => true },
    { excludes: ['*'] },
    { exclude: [1] },
    { jobs: 0 },
    { jobs: '2; rm' },
    { mode: 64 },
    { mode: 2, reflink: 'never' },
    { reflink: 'sometimes' },
    { verify: 'no' },
    { signal: {} },
    { onProgress: true },
    { program: 5 },
  ];
  for (const options of wrong) {
    const copy = copyTree(source, path.join(target, 'below'), options);
    await assert.rejects(copy, { name: 'TypeError', code: 'ERR_INVALID_ARG_VALUE' });
  }
  for (const name of ['', 'a\0b', 5, Buffer.from([0xff])]) {
    await assert.rejects(copyTree(name, target), { code: 'ERR_INVALID_ARG_VALUE' });
  }
  assert.ok(!fs.existsSync(target));
});

test('an option that is undefined is not given', async (t) => {
  const { source, target } = tree(t);
  const names = ['filter', 'excludes', 'exclude', 'recursive', 'force', 'mode', 'reflink', 'verify'];
  names.push('jobs', 'signal', 'onProgress', 'program', 'bandwidthLimit', 'archive', 'errorOnExist');
  const options = Object.fromEntries(names.map((name) => [name, undefined]));
  assert.equal((await copyTree(source, target, options)).files, 2);
  assert.equal((await sync(source, target, { maxDelete: undefined, filter: undefined })).deleted, 0);
});

test('a program that cannot be started is an error, and the next run works', async (t) => {
  const { source, target } = tree(t);
  // Longer than Linux lets an argument be.
  const exclude = 'x'.repeat(200_000);
  await assert.rejects(copyTree(source, target, { exclude }), { name: 'HaulError', code: 'E2BIG' });
  const script = `
    const fs = require('node:fs');
    const { copyTree } = require('haul-copy');
    const open = [];
    try {
      for (;;) open.push(fs.openSync('/dev/null'));
    } catch (error) {
      if (error.code !== 'EMFILE') throw error;
    }
    // As many as Node itself needs, and fewer than the pipes to haul take.
    fs.closeSync(open.pop());
    const copy = () => copyTree(${JSON.stringify(source)}, ${JSON.stringify(target)});
    copy().then(() => 'copied', (error) => error).then(async (error) => {
      for (const file of open) fs.closeSync(file);
      const { files } = await copy();
      console.log(error.name, error.code, files);
    });`;
  const limited = ['-c', 'ulimit -n 100; exec "$0" -e "$1"', process.execPath, script];
  const { status, stdout, stderr } = spawnSync('sh', limited, { cwd: __dirname, encoding: 'utf8' });
  assert.deepEqual([status, stdout, stderr], [0, 'HaulError EMFILE 2\n', '']);
});

test('a program that is missing, or prints no events, is an error', async (t) => {
  const { source, target } = tree(t);
  await assert.rejects(copyTree(source, target, { program: '/nonexistent/haul' }), {
    name: 'HaulError',
    code: 'ENOENT',
  });
  await assert.rejects(copyTree(source, target, { program: '/bin/true' }), { name: 'HaulError' });
});

test('sync makes trees equal', async (t) => {
  const { source, target } = tree(t);
  fs.mkdirSync(target);
  fs.writeFileSync(path.join(target, 'old'), '');
  await sync(source, target);
  assert.ok(fs.existsSync(path.join(target, 'old')));
  const planned = await sync(source, target, { delete: true, dryRun: true });
  assert.equal(planned.deleted, 1);
  assert.ok(fs.existsSync(path.join(target, 'old')));
  await sync(source, target, { delete: true, checksum: true, maxDelete: '50%' });
  assert.deepEqual(fs.readdirSync(target).sort(), ['a.txt', 'link', 'sub']);
});
