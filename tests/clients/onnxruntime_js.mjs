// ONNX Runtime in JavaScript, native and as WebAssembly:
// node onnxruntime_js.mjs FILE
import { readFileSync } from "node:fs";
import { AutoTokenizer, env } from "@huggingface/transformers";
import * as native from "onnxruntime-node";
import * as web from "onnxruntime-web";

const request = JSON.parse(readFileSync(process.argv[2], "utf-8"));
env.allowRemoteModels = false;
env.localModelPath = request.folder;
const tokenizer = await AutoTokenizer.from_pretrained("minilm");
const file = readFileSync(`${request.folder}/minilm/onnx/model.onnx`);
const found = { version: `${native.env.versions.node}, ${web.env.versions.web}` };
for (const [name, runtime] of Object.entries({ native, web })) {
  const session = await runtime.InferenceSession.create(file);
  found[name] = [];
  for (const text of request.texts) {
    const inputs = {};
    const row = tokenizer(text, { truncation: true });
    for (const [input, { data, dims }] of Object.entries(row))
      inputs[input] = new runtime.Tensor("int64", data, dims);
    const { embedding } = await session.run(inputs);
    found[name].push(Array.from(embedding.data));
  }
}
console.log(JSON.stringify(found));
