/** The sandbox of `ways`, in a process of its own: what it calls is no part of a way. Argument: the redirect URI of the host. */
import { ExhibitorSandbox } from '../../dist/development/testing/index.js';

const sandbox = await ExhibitorSandbox.start({ port: 0 });
sandbox.signInAs('olga.one');
process.on('disconnect', () => process.exit());
process.send(sandbox.tenantOptions('acme', { redirectUri: process.argv[2] }));
