/** An event as shown in a portal. The service identifies events by id only and has no other data of them. */
export interface TradeEvent {
  id: string;
  title: string;
  place: string;
  dates: string;
}

/** The portal of one tenant, below `/{tenant}`. Its colours and logo are in `assets/`. */
export interface Portal {
  tenant: string;
  name: string;
  headline: string;
  events: readonly TradeEvent[];
}

const EVENTS: readonly TradeEvent[] = [
  { id: 'world-2026', title: 'World Industry Expo 2026', place: 'Hanover', dates: '20–24 April 2026' },
  { id: 'national-2026', title: 'National Building Show 2026', place: 'Birmingham', dates: '9–11 June 2026' },
  { id: 'regional-2026', title: 'Regional Craft Fair 2026', place: 'Graz', dates: '3–5 July 2026' },
  {
    id: 'boutique-2026',
    title: 'Boutique Design Days 2026',
    place: 'Copenhagen',
    dates: '17–18 September 2026',
  },
  { id: 'empty-2026', title: 'Empty Hall Preview 2026', place: 'Rotterdam', dates: '12 November 2026' },
];

/** The portals of two tenants of the sandbox. A real host would keep portals and events in a database. */
export const SANDBOX_PORTALS: readonly Portal[] = [
  { tenant: 'acme', name: 'Acme Fairs', headline: 'Your booth at every event', events: EVENTS },
  { tenant: 'globex', name: 'Globex Expo', headline: 'Where industries meet', events: EVENTS.slice(0, 3) },
];
