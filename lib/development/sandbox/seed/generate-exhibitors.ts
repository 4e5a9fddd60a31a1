/** An exhibitor record of the sandbox. The service does not specify the fields of a record; a test may add any. */
export interface SandboxExhibitor {
  readonly id: string;
  /** Addresses by which a lookup finds this record. They are compared byte for byte. */
  readonly contactEmails: readonly string[];
  readonly [field: string]: unknown;
}

const STEMS = (
  'Alder Arbor Aurora Beacon Birch Bright Cedar Cobalt Copper Coral Delta Ember Falcon Fjord Granite Harbor ' +
  'Hazel Heron Indigo Juniper Kestrel Lark Linden Lumen Maple Meridian Nordic Onyx Orchard Osprey Pine Quarry ' +
  'Raven River Saffron Sierra Solstice Summit Willow Zenith'
).split(' ');
const TRADES = (
  'Acoustics Automation Bearings Cabinetry Ceramics Coatings Controls Cranes Displays Drives Elevators Fabrics ' +
  'Fasteners Filtration Flooring Foundry Furnishings Glass Hydraulics Insulation Joinery Lighting Logistics ' +
  'Materials Metalworks Optics Packaging Plastics Pumps Robotics Roofing Scaffolding Sensors Signage Stonework ' +
  'Textiles Tooling Valves Ventilation Woodcraft'
).split(' ');
const COUNTRIES =
  'Austria Brazil Denmark Finland France Germany India Italy Japan Netherlands Poland Sweden Wales'.split(
    ' ',
  );
const BOOTHS_PER_HALL = 150;

/**
 * The records that each seeded person is a contact of, as fractions of the number of exhibitors. The fractions select
 * different records in events of seven exhibitors or more.
 */
const CONTACTS: readonly (readonly [email: string, positions: readonly number[]])[] = [
  ['olga.one@example.com', [0.1]],
  ['sam.several@example.com', [0.2, 0.45, 0.7]],
  ['zoë+fair@example.com', [0.8]],
  ['uma.unverified@example.com', [0.9]],
];

/** Generates the exhibitors of an event. The result depends on the arguments only; up to 1,600 names are distinct. */
export function generateExhibitors(tenantKey: string, eventId: string, count: number): SandboxExhibitor[] {
  const start = checksum(`${tenantKey}/${eventId}`);
  return Array.from({ length: count }, (_, index) => {
    // 1,063 and 1,600 are coprime, so that every pair of stem and trade occurs once before one repeats.
    const pair = (start + index * 1063) % (STEMS.length * TRADES.length);
    const name = `${STEMS[pair % STEMS.length]} ${TRADES[Math.floor(pair / STEMS.length)]}`;
    const hall = 1 + Math.floor(index / BOOTHS_PER_HALL);
    const place = index % BOOTHS_PER_HALL;
    return {
      id: `${tenantKey}-${eventId}-${String(index + 1).padStart(4, '0')}`,
      name,
      hall: `Hall ${hall}`,
      booth: `${hall}${'ABCDEF'.charAt(Math.floor(place / 25))}${String(1 + (place % 25)).padStart(2, '0')}`,
      country: COUNTRIES[(start + index * 7) % COUNTRIES.length],
      contactEmails: [
        `contact@${name.toLowerCase().replace(' ', '-')}.example`,
        ...CONTACTS.filter(([, positions]) =>
          positions.some((position) => Math.floor(position * count) === index),
        ).map(([email]) => email),
      ],
    };
  });
}

function checksum(text: string): number {
  return [...text].reduce((sum, letter) => (sum * 31 + (letter.codePointAt(0) ?? 0)) % 65_521, 7);
}
