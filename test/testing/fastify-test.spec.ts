/** The test of docs/testing.md for Fastify, as it is: it registers its own `describe`. */
import { loadSnippets } from '../support/snippets.js';

await loadSnippets('testing.md', 'fastify test');
