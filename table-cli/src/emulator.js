// Runs the table service of Azurite on a free port until the program that started it ends, in any way: its end of the pipe closes. Azurite then
// writes its data, as after Ctrl-C. The arguments are the arguments of `azurite-table`. The exit code is 3 if Azurite is not installed.
const fs = require("fs");
const net = require("net");
const path = require("path");

const MAIN = path.join("azurite", "dist", "src", "table", "main.js");
// The paths of the package from npm's directory of programs: local and by npx, global on Windows, global on other systems.
const PATHS = [path.join("..", MAIN), path.join("node_modules", MAIN), path.join("..", "lib", "node_modules", MAIN)];

const directories = (process.env.PATH || "").split(path.delimiter).filter((directory) => directory !== "");
const candidates = directories.flatMap((directory) => PATHS.map((place) => path.join(directory, place)));
const main = candidates.find((file) => fs.existsSync(file));
if (main === undefined) {
  process.exit(3);
}
// The service does not say which port it got for port 0.
const probe = net.createServer();
probe.listen(0, "127.0.0.1", () => {
  const { port } = probe.address();
  probe.close(() => {
    process.argv.push("--tableHost", "127.0.0.1", "--tablePort", String(port));
    process.stdin.on("close", () => process.emit("SIGINT")).resume();
    require(main);
  });
});
