// Starts the Go program, and exports its functions: see main_js.go.
import "./wasm_exec.js";

const go = new Go();
const code = await (await fetch("main.wasm")).arrayBuffer();
go.run((await WebAssembly.instantiate(code, go.importObject)).instance);

export const wheel = globalThis.hashedwheel;
