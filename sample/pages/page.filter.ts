import { Catch } from '@nestjs/common';
import { ExhibitorExceptionFilter } from 'nestjs-exhibitor';

/** Shows every error as a page of the module, also those of the portal and of Nest, such as an address without a route. */
@Catch()
export class PageFilter extends ExhibitorExceptionFilter {}
