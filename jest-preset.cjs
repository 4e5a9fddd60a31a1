/**
 * Jest preset for CommonJS hosts: `"preset": "nestjs-exhibitor"`. Jest on Node 20 cannot load ES modules from CommonJS, so
 * this package is replaced by its CommonJS build, and so are `@nestjs/axios` and `@nestjs/passport` where the host has the
 * majors that are ES modules. No transform is needed. An import such as `./app.module.js`, as in the documents, also finds the `.ts` file,
 * which the compiler of the host resolves, but Jest does not. The moduleNameMapper of the host is added to this one, and wins.
 */
const { existsSync, readFileSync } = require('node:fs');
const { dirname, join } = require('node:path');

const build = (name) => join(__dirname, 'dist', 'cjs', `${name}.cjs`);

/** The manifest of an installed package, found without its `exports`; `undefined` where it is not installed. */
function manifestOf(name) {
  for (let folder = __dirname; ; folder = dirname(folder)) {
    const file = join(folder, 'node_modules', name, 'package.json');
    if (existsSync(file)) {
      return JSON.parse(readFileSync(file, 'utf8'));
    }
    if (folder === dirname(folder)) {
      return undefined;
    }
  }
}

const copies = { '@nestjs/axios': 'nestjs-axios', '@nestjs/passport': 'nestjs-passport' };

module.exports = {
  moduleNameMapper: Object.fromEntries([
    ['^(\\.{1,2}/.*)\\.js$', ['$1.js', '$1']],
    ['^nestjs-exhibitor$', build('index')],
    ['^nestjs-exhibitor/(testing|doctor)$', build('development/$1/index')],
    ['^nestjs-exhibitor/(redis|terminus|mirror|opentelemetry)$', build('integrations/$1/index')],
    ...Object.entries(copies)
      .filter(([name]) => manifestOf(name)?.type === 'module')
      .map(([name, file]) => [`^${name}$`, build(file)]),
  ]),
};
