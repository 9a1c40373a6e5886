// Runs the reader's tests in the Python of pyodide: node pyodide.cjs REPOSITORY, with pyodide on NODE_PATH.
const path = require("path");
const { loadPyodide } = require("pyodide");

(async () => {
  const root = path.resolve(process.argv[2]);
  const python = await loadPyodide();
  python.FS.mkdir("/repository");
  python.FS.mount(python.FS.filesystems.NODEFS, { root }, "/repository");
  const failed = await python.runPythonAsync(`
import sys, unittest
sys.dont_write_bytecode = True
sys.path.insert(0, "/repository/scripts/python")
print("Python", sys.version)
suite = unittest.defaultTestLoader.loadTestsFromName("tests.test_table")
result = unittest.TextTestRunner(stream=sys.stdout).run(suite)
0 if result.wasSuccessful() and result.testsRun else 1
`);
  process.exit(failed);
})().catch((e) => {
  console.error(e);
  process.exit(1);
});
