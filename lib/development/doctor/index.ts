export { diagnose } from './diagnose.js';
export type { DiagnosisHints, Finding } from './finding.js';
