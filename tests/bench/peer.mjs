// Latency and memory of one model in ONNX Runtime, for comparison. Prints one JSON line.
// Usage: node peer.mjs MODULES_FOLDER MODEL THREADS RUNS  (MODULES_FOLDER holds onnxruntime-node)
import { createRequire } from 'node:module';
import fs from 'node:fs';
import path from 'node:path';

const [modules, model, threads, runs] = process.argv.slice(2);
const require = createRequire(path.join(path.resolve(modules), 'node_modules', 'x.js'));
const ort = require('onnxruntime-node');

const statusKib = (key) =>
  Number(fs.readFileSync('/proc/self/status', 'utf8').match(new RegExp(`${key}:\\s+(\\d+)`))[1]);

const baseKib = statusKib('VmRSS');
const session = await ort.InferenceSession.create(model, {
  intraOpNumThreads: Number(threads), interOpNumThreads: 1, graphOptimizationLevel: 'all',
});
const feeds = {};
for (const meta of session.inputMetadata) {
  const shape = meta.shape.map((d) => (typeof d === 'number' ? d : 1));
  const count = shape.reduce((a, b) => a * b, 1);
  feeds[meta.name] = meta.type === 'int64'
    ? new ort.Tensor('int64', new BigInt64Array(count), shape)
    : new ort.Tensor('float32', new Float32Array(count).fill(0.5), shape);
}
const times = [];
for (let i = 0; i < Number(runs) + 3; ++i) {
  const begin = process.hrtime.bigint();
  await session.run(feeds);
  const ms = Number(process.hrtime.bigint() - begin) / 1e6;
  if (i >= 3) times.push(ms);
}
times.sort((a, b) => a - b);
console.log(JSON.stringify({
  median_ms: times[times.length >> 1], min_ms: times[0], peak_kib: statusKib('VmHWM'),
  base_kib: baseKib, version: ort.env.versions.common,
}));
