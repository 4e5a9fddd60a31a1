/** Prints the errors of the TypeScript files of a folder, one a line. Its argument is the folder's tsconfig.json. */
import { basename } from 'node:path';
import ts from 'typescript';

const { fileNames, options } = ts.getParsedCommandLineOfConfigFile(
  process.argv[2],
  {},
  {
    ...ts.sys,
    onUnRecoverableConfigFileDiagnostic({ messageText }) {
      throw new Error(ts.flattenDiagnosticMessageText(messageText, ' '));
    },
  },
);
const program = ts.createProgram(fileNames, options);
// `tsc` would check every file that they import as well: the whole project, and twice as long.
for (const source of fileNames.map((name) => program.getSourceFile(name))) {
  for (const { messageText } of [
    ...program.getSyntacticDiagnostics(source),
    ...program.getSemanticDiagnostics(source),
  ]) {
    console.log(`${basename(source.fileName)}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`);
  }
}
