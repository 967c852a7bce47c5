// Answers of ONNX Runtime. Usage: node answers.mjs MODULES_FOLDER JOBS  (MODULES_FOLDER holds
// onnxruntime-node). JOBS is a JSON file: [{model, inputs: [{name, type, shape, file}], outputs:
// file prefix}]; writes the raw elements of output i to PREFIXi and prints one JSON line:
// for each job the types and shapes of its outputs, or why it has none.
import { createRequire } from 'node:module';
import fs from 'node:fs';
import path from 'node:path';

const [modules, jobs] = process.argv.slice(2);
const require = createRequire(path.join(path.resolve(modules), 'node_modules', 'x.js'));
const ort = require('onnxruntime-node');

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int32: Int32Array, int64: BigInt64Array,
  bool: Uint8Array,
};

function read({ type, shape, file }) {
  const bytes = new Uint8Array(fs.readFileSync(file));
  return new ort.Tensor(type, new ARRAYS[type](bytes.buffer), shape);
}

const found = [];
for (const job of JSON.parse(fs.readFileSync(jobs, 'utf8'))) {
  try {
    const session = await ort.InferenceSession.create(job.model, {
      intraOpNumThreads: 1, graphOptimizationLevel: 'disabled', logSeverityLevel: 4,
    });
    const feeds = Object.fromEntries(job.inputs.map((input) => [input.name, read(input)]));
    const answers = await session.run(feeds);
    found.push({ outputs: session.outputNames.map((name, i) => {
      const { type, dims, data } = answers[name];
      fs.writeFileSync(`${job.outputs}${i}`, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
      return { name, type, shape: [...dims] };
    }) });
  } catch (error) {
    found.push({ error: String(error.message ?? error) });
  }
}
console.log(JSON.stringify(found));
