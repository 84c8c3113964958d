/**
 * What quantization did to a step, in numbers for people: a record a linear layer's tensor, and what weights' gradients have in
 * common with those of BF16. Fractions are per cent here; what a tensor has not is absent.
 */

/** The names of the numbers of a site, with their units and which end of them is the bad one. */
export const siteStatistics = {
  snrDb: { label: "SNR", unit: "dB", worse: "low" },
  underflowPercent: { label: "underflow", unit: "%", worse: "high" },
  saturatedPercent: { label: "saturated", unit: "%", worse: "high" },
  zeroBlocksPercent: { label: "zero blocks", unit: "%", worse: "high" },
  scaleUnderflowPercent: { label: "scale underflow", unit: "%", worse: "high" },
  amax: { label: "amax", unit: "", worse: "high" },
  tensorScale: { label: "tensor scale", unit: "", worse: "high" },
} as const;

export type SiteStatistic = keyof typeof siteStatistics;

/** The tensors of a linear layer: its input, its weight, the gradient of its result. */
export const siteTensors = { x: "activation", w: "weight", dy: "gradient" } as const;
export type SiteTensor = keyof typeof siteTensors;

/** A tensor of a linear layer as it is quantized first. What is absent it has not; plain tensors have `amax` alone. */
export interface SiteRecord extends Partial<Readonly<Record<SiteStatistic, number>>> {
  readonly layer: number;
  /** "mlp.down" */
  readonly module: string;
  readonly tensor: SiteTensor;
  /** "nvfp4"; absent where no GEMM quantizes the tensor. */
  readonly format?: string;
  readonly amax: number;
}

/** A weight's gradient beside that of BF16 from the same weights, tokens and random draws. */
export interface GradientRecord {
  /** "layers.0.q", "embed" */
  readonly tensor: string;
  /** 1 where both point the same way. */
  readonly cosine: number;
  /** Norm of the gradient over that of BF16's. */
  readonly normRatio: number;
}

/** What was measured of a step's first micro-batch, before the step changed the weights. */
export interface NumericsRecord {
  readonly step: number;
  /** Of measuring, which is no part of a step's time. */
  readonly seconds: number;
  readonly sites: readonly SiteRecord[];
  readonly gradients?: readonly GradientRecord[];
  /** What the loss, and so each dy, was multiplied by. */
  readonly lossScale?: number;
  /** Tensors that are not finite, in the order of the computation: the first is where it began. */
  readonly notFinite?: readonly string[];
}

/** "layer 3 mlp.down dy" */
export const siteName = ({ layer, module, tensor }: SiteRecord): string => `layer ${layer} ${module} ${tensor}`;

/** Sites that have the statistic, the worst first; what is not a number is worst of all. */
export function worstSites(sites: readonly SiteRecord[], statistic: SiteStatistic): SiteRecord[] {
  const sign = siteStatistics[statistic].worse === "low" ? 1 : -1;
  const badness = (site: SiteRecord) => {
    const value = site[statistic]!;
    return Number.isNaN(value) ? Number.NEGATIVE_INFINITY : sign * value;
  };
  return sites.filter((site) => site[statistic] !== undefined).toSorted((a, b) => compare(badness(a), badness(b)));
}

/** Gradients with the smallest cosine first. */
export const worstGradients = (gradients: readonly GradientRecord[]): GradientRecord[] => {
  const badness = ({ cosine }: GradientRecord) => (Number.isNaN(cosine) ? Number.NEGATIVE_INFINITY : cosine);
  return gradients.toSorted((a, b) => compare(badness(a), badness(b)));
};

const compare = (a: number, b: number): number => (a < b ? -1 : a > b ? 1 : 0);

/** One line on a measured step for the console. */
export function numericsLine({ step, sites, gradients = [], seconds, notFinite = [] }: NumericsRecord): string {
  const [lowest] = worstSites(sites, "snrDb");
  const [underflow] = worstSites(sites, "underflowPercent");
  const [cosine] = worstGradients(gradients);
  const parts = [
    ...(lowest ? [`lowest SNR: ${lowest.snrDb!.toFixed(1)} dB (${siteName(lowest)})`] : ["nothing is quantized"]),
    ...(underflow ? [`most underflow: ${underflow.underflowPercent!.toFixed(2)} % (${siteName(underflow)})`] : []),
    ...(cosine ? [`lowest gradient cosine: ${cosine.cosine.toFixed(4)} (${cosine.tensor})`] : []),
    ...(notFinite.length > 0 ? [`not finite: ${notFiniteText(notFinite)}`] : []),
    `seconds: ${seconds.toFixed(3)}`,
  ];
  return `numerics of step: ${step}, ${parts.join(", ")}`;
}

const namedAtMost = 4;

/** Names of what is not finite, the first some of them. */
export function notFiniteText(names: readonly string[]): string {
  const more = names.length - namedAtMost;
  return `${names.slice(0, namedAtMost).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
