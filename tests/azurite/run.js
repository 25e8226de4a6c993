// Runs the emulator until the process that started it is gone, however it went: its end of the pipe closes.
process.stdin.on("close", () => process.exit(0)).resume();
require(require("path").resolve("node_modules/azurite/dist/src/azurite.js"));
