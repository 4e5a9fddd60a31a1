/** An event as the portal presents it. The service knows events by their id only. */
export interface TradeEvent {
  id: string;
  title: string;
  place: string;
  dates: string;
}

/** Token of the list of events, which a real host would keep in its own database. */
export const TRADE_EVENTS = Symbol('TRADE_EVENTS');

/** The events of the sandbox. */
export const SANDBOX_EVENTS: readonly TradeEvent[] = [
  { id: 'world-2026', title: 'World Industry Expo 2026', place: 'Hanover', dates: '20–24 April 2026' },
  { id: 'national-2026', title: 'National Building Show 2026', place: 'Birmingham', dates: '9–11 June 2026' },
  { id: 'regional-2026', title: 'Regional Craft Fair 2026', place: 'Graz', dates: '3–5 July 2026' },
  {
    id: 'boutique-2026',
    title: 'Boutique Design Days 2026',
    place: 'Copenhagen',
    dates: '17–18 Sept 2026',
  },
  { id: 'empty-2026', title: 'Empty Hall Preview 2026', place: 'Rotterdam', dates: '12 November 2026' },
];

/** An event the portal has no words for is still the service's to know: it goes by its id. */
export function describeEvent(events: readonly TradeEvent[], id: string): TradeEvent {
  return events.find((event) => event.id === id) ?? { id, title: id, place: '', dates: '' };
}
