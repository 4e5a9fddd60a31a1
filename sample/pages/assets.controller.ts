import { readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { Controller, Get, Header, NotFoundException, Param, StreamableFile } from '@nestjs/common';
import { SOURCE } from './views.js';

const TYPES: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
};

/** Serves style sheets, scripts and images. A real host leaves this to its proxy or a middleware of its platform. */
@Controller('assets')
export class AssetsController {
  private readonly files = new Map(
    ['assets', 'tour/assets'].flatMap((folder) =>
      readdirSync(join(SOURCE, folder)).map(
        (name) => [name, readFileSync(join(SOURCE, folder, name))] as const,
      ),
    ),
  );

  @Get(':name')
  @Header('Cache-Control', 'max-age=300')
  file(@Param('name') name: string): StreamableFile {
    const content = this.files.get(name);
    if (!content) {
      throw new NotFoundException();
    }
    return new StreamableFile(content, { type: TYPES[extname(name)] });
  }
}
