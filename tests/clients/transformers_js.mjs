// transformers.js on the folders of a request: node transformers_js.mjs FILE
import { readFileSync } from "node:fs";
import { env, pipeline } from "@huggingface/transformers";

const request = JSON.parse(readFileSync(process.argv[2], "utf-8"));
env.allowRemoteModels = false;
env.localModelPath = request.folder;
const found = { version: env.version };

const load = (task, name, dtype = "fp32") => pipeline(task, name, { dtype });
for (const [name, dtype] of [["vectors", "fp32"], ["int8", "q8"]]) {
  const embed = await load("feature-extraction", "minilm", dtype);
  const options = { pooling: "mean", normalize: true };
  found[name] = (await embed(request.texts, options)).tolist();
}

const classify = await load("text-classification", "classifier");
found.classifier = await classify(request.texts, { top_k: null });

const tag = await load("token-classification", "tagger");
found.tagger = await tag(request.texts, { ignore_labels: [] });

const answer = await load("question-answering", "reader");
found.reader = [];
for (const text of request.texts)
  found.reader.push(await answer(request.question, text));

const fill = await load("fill-mask", "masked_lm");
found.masked_lm = await fill(request.masked, { top_k: 5 });
console.log(JSON.stringify(found));
