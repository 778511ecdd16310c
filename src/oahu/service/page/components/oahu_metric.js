// How much every part of the metric counts: now, at the start, and on the way.
const WIDE = 320;
const HIGH = 96;

export default {
  props: { data: String },
  data: () => ({ at: null, WIDE, HIGH }),
  computed: {
    d() {
      return JSON.parse(this.data);
    },
    history() {
      const last = { c: this.d.constraints, w: this.d.parts.map((part) => part.now) };
      const past = this.d.history.filter((moment) => moment.c < last.c);
      return past.length ? [...past, last] : [last, { ...last, c: last.c + 1 }];
    },
    shown() {
      return this.at === null ? this.d.parts.map((part) => part.now) : this.history[this.at].w;
    },
    largest() {
      return Math.max(0.25, ...this.d.parts.map((part) => Math.max(part.now, part.start)), ...this.shown);
    },
    bands() {
      let floor = this.history.map(() => 0);
      return this.d.parts.map((_, part) => {
        const top = this.history.map((moment, at) => floor[at] + moment.w[part]);
        const up = top.map((y, at) => this.point(at, y));
        const down = floor.map((y, at) => this.point(at, y)).reverse();
        floor = top;
        return `M${up.join("L")}L${down.join("L")}Z`;
      });
    },
    summary() {
      return this.d.parts.map((part) => `${part.name} ${this.percent(part.now)}`).join(", ");
    },
  },
  template: `
    <section class="weights" aria-label="The metric">
      <header><h2>Metric</h2><span class="over">{{ d.learner }}</span></header>
      <p v-if="d.error" class="banner" role="alert">{{ d.error }}</p>
      <dl class="dials">
        <div title="The last entry of the log that the metric has learned."><dt>Version</dt>
          <dd data-dial="version">{{ d.version.toLocaleString('en') }}</dd></div>
        <div title="Constraints: what was said, and what follows from it."><dt>Learned</dt>
          <dd data-dial="constraints">{{ d.constraints.toLocaleString('en') }}</dd></div>
        <div title="How often the metric had it wrong before it was told, lately."><dt>Surprise</dt>
          <dd data-dial="surprise">{{ d.loss === null ? '–' : percent(d.loss) }}</dd></div>
        <div title="How many constraints newer the metric is than the embedding that candidates come from."><dt>Candidates</dt>
          <dd data-dial="candidates" :class="{ stale: d.stale }">{{ d.stale ? d.stale.toLocaleString('en') + ' behind' : 'fresh' }}</dd></div>
      </dl>
      <p v-if="d.behind" class="hint" data-dial="behind">{{ d.behind.toLocaleString('en') }} being learned …</p>
      <ul class="bars" :aria-label="'Weights: ' + summary">
        <li v-for="(part, at) in d.parts" :key="part.name" :data-part="part.name" :title="meaning(part.name)">
          <span class="part">{{ nice(part.name) }}</span>
          <span class="track"><span class="fill" :style="{ width: wide(shown[at]), background: tint(at) }"></span>
            <span class="was" :style="{ left: wide(part.start) }" title="Where it started"></span></span>
          <span class="much">{{ percent(shown[at]) }}</span>
        </li>
      </ul>
      <figure v-if="d.parts.length > 1">
        <svg :viewBox="'0 0 ' + WIDE + ' ' + HIGH" preserveAspectRatio="none" role="img"
             :aria-label="'How the weights moved over ' + d.constraints + ' constraints'"
             @pointermove="look" @pointerleave="at = null">
          <path v-for="(band, at) in bands" :key="at" :d="band" :style="{ fill: tint(at) }"/>
          <line v-if="at !== null" :x1="x(at)" :x2="x(at)" y1="0" :y2="HIGH"/>
        </svg>
        <figcaption><span>0</span>
          <span>{{ at === null ? 'weights over constraints' : 'at ' + history[at].c.toLocaleString('en') }}</span>
          <span>{{ d.constraints.toLocaleString('en') }}</span></figcaption>
      </figure>
    </section>`,
  methods: {
    percent(share) {
      return `${(100 * share).toFixed(1)} %`;
    },
    wide(share) {
      return `${((100 * share) / this.largest).toFixed(2)}%`;
    },
    tint(at) {
      return `var(--part-${this.d.parts[at].tint})`;
    },
    x(at) {
      const first = this.history[0].c;
      const span = this.history[this.history.length - 1].c - first || 1;
      return (WIDE * (this.history[at].c - first)) / span;
    },
    point(at, share) {
      return `${this.x(at).toFixed(1)},${(HIGH * (1 - share)).toFixed(2)}`;
    },
    look(event) {
      const box = event.currentTarget.getBoundingClientRect();
      const x = (WIDE * (event.clientX - box.left)) / box.width;
      const far = this.history.map((_, at) => Math.abs(this.x(at) - x));
      this.at = far.indexOf(Math.min(...far));
    },
    nice(name) {
      return name.replace(/^E_(\d+)$/, (_, depth) => "E" + [...depth].map((one) => "₀₁₂₃₄₅₆₇₈₉"[one]).join(""));
    },
    meaning(name) {
      if (name === "unlearned") return "Items as they came.";
      if (name === "whitened") return "Items with their directions evened out.";
      const depth = /^E_(\d+)$/.exec(name);
      return depth ? `The expert at depth ${depth[1]} of the network.` : name;
    },
  },
};
