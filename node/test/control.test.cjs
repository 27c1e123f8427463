'use strict';

// Progress, and runs that are stopped. haul copies so little a second that it would take minutes.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { once } = require('node:events');
const test = require('node:test');

const { copyTree } = require('haul-copy');

function slow(t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'haul-node-'));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  const source = path.join(folder, 'source');
  fs.mkdirSync(source);
  fs.writeFileSync(path.join(source, 'large'), Buffer.alloc(16 * 1024 * 1024, 1));
  const options = { bandwidthLimit: 64 * 1024, reflink: 'never' };
  return { source, target: path.join(folder, 'target'), options };
}

/** Command lines of the programs that run and copy to `target`. */
function copiersTo(target) {
  const processes = fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const commands = processes.map((name) => {
    try {
      return fs.readFileSync(`/proc/${name}/cmdline`, 'utf8').split('\0');
    } catch {
      return [];
    }
  });
  return commands.filter((words) => words[1] === 'cp' && words.includes(target));
}

test('progress is reported, and abort waits until haul has cleaned up', async (t) => {
  const { source, target, options } = slow(t);
  const controller = new AbortController();
  const seen = [];
  const onProgress = (progress) => {
    seen.push(progress);
    assert.equal(copiersTo(target).length, 1);
    controller.abort(new Error('enough'));
  };
  const run = copyTree(source, target, { ...options, onProgress, signal: controller.signal });
  await assert.rejects(run, (error) => {
    assert.equal(error.name, 'AbortError');
    assert.equal(error.code, 'ABORT_ERR');
    assert.equal(error.cause.message, 'enough');
    return true;
  });
  assert.ok(seen.length > 0);
  assert.equal(typeof seen[0].seconds, 'number');
  assert.equal(seen[0].waitsForRoom, false);
  assert.deepEqual(copiersTo(target), []);
  // A new file of this size has no name before it is complete.
  assert.deepEqual(fs.readdirSync(target), []);
});

test('a signal that is already aborted starts nothing', async (t) => {
  const { source, target } = slow(t);
  await assert.rejects(copyTree(source, target, { signal: AbortSignal.abort() }), {
    name: 'AbortError',
  });
  assert.ok(!fs.existsSync(target));
});

test('what onProgress throws stops the run', async (t) => {
  const { source, target, options } = slow(t);
  const onProgress = () => {
    throw new RangeError('mine');
  };
  await assert.rejects(copyTree(source, target, { ...options, onProgress }), RangeError);
  assert.deepEqual(copiersTo(target), []);
});

test('a process that exits leaves no haul behind', async (t) => {
  const { source, target, options } = slow(t);
  const script = `
    const { copyTree } = require('haul-copy');
    const onProgress = () => process.exit(7);
    copyTree(${JSON.stringify(source)}, ${JSON.stringify(target)},
      { ...${JSON.stringify(options)}, onProgress });`;
  const words = ['-e', script];
  const child = spawn(process.execPath, words, { cwd: __dirname, stdio: 'inherit' });
  const [status] = await once(child, 'exit');
  assert.equal(status, 7);
  // It would go on for minutes.
  for (let tries = 0; copiersTo(target).length > 0; tries += 1) {
    assert.ok(tries < 300, 'haul still runs');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
});
