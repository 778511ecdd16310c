// The weight of each space of the metric: now, at the start, and over time.
const WIDTH = 320;
const HEIGHT = 96;
const MEANINGS = {
  cosine: "The angle between two items.",
  "centred cosine": "The angle between two items, relative to the mean of the items.",
  Euclidean: "The distance between two items.",
  "catalogue-whitened": "The angle after directions in which all items differ are scaled down.",
  "pair-whitened": "The angle after directions in which similar items differ are scaled down.",
  "axis weights": "The angle after each principal axis is multiplied by a learned weight.",
  "linear map": "The angle after a learned linear map.",
  network: "The angle after a learned network.",
};

export default {
  props: { data: String },
  data: () => ({ hovered: null, WIDTH, HEIGHT }),
  computed: {
    content() {
      return JSON.parse(this.data);
    },
    history() {
      const last = { constraints: this.content.constraints, weights: this.content.spaces.map((space) => space.weight) };
      const past = this.content.history.filter((point) => point.constraints < last.constraints);
      return past.length ? [...past, last] : [last, { ...last, constraints: last.constraints + 1 }];
    },
    shown() {
      return this.hovered === null ? this.content.spaces.map((space) => space.weight) : this.history[this.hovered].weights;
    },
    largest() {
      return Math.max(0.25, ...this.content.spaces.map((space) => Math.max(space.weight, space.start)), ...this.shown);
    },
    bands() {
      let bottom = this.history.map(() => 0);
      return this.content.spaces.map((_, space) => {
        const top = this.history.map((point, index) => bottom[index] + point.weights[space]);
        const upper = top.map((y, index) => this.point(index, y));
        const lower = bottom.map((y, index) => this.point(index, y)).reverse();
        bottom = top;
        return `M${upper.join("L")}L${lower.join("L")}Z`;
      });
    },
    description() {
      return this.content.spaces.map((space) => `${space.name} ${this.percent(space.weight)}`).join(", ");
    },
  },
  template: `
    <section class="metric" aria-label="Metric">
      <header><h2>Metric</h2><span class="caption">{{ content.learner }}</span></header>
      <p v-if="content.error" class="banner" role="alert">{{ content.error }}</p>
      <dl class="numbers">
        <div title="Sequence number of the last learned log entry."><dt>Version</dt>
          <dd data-number="version">{{ content.version.toLocaleString('en') }}</dd></div>
        <div title="Number of learned constraints, given by feedback or implied."><dt>Learned</dt>
          <dd data-number="constraints">{{ content.constraints.toLocaleString('en') }}</dd></div>
        <div title="Recent share of triplets that were ranked wrongly before training on them."><dt>Error rate</dt>
          <dd data-number="error-rate">{{ content.error_rate === null ? '–' : percent(content.error_rate) }}</dd></div>
        <div title="Constraints learned since the catalogue was encoded. Search candidates come from that encoding."><dt>Candidates</dt>
          <dd data-number="candidates" :class="{ stale: content.candidates_behind }">{{
            content.candidates_behind ? content.candidates_behind.toLocaleString('en') + ' behind' : 'up to date' }}</dd></div>
      </dl>
      <p v-if="content.pending" class="hint" data-number="pending">Learning {{ content.pending.toLocaleString('en') }} feedback records …</p>
      <ul class="bars" :aria-label="'Weights: ' + description">
        <li v-for="(space, index) in content.spaces" :key="space.name" :data-space="space.name" :title="meaning(space.name)">
          <span class="space">{{ withSubscript(space.name) }}</span>
          <span class="track"><span class="fill" :style="{ width: width(shown[index]), background: tint(index) }"></span>
            <span class="start-weight" :style="{ left: width(space.start) }" title="Weight at the start"></span></span>
          <span class="weight">{{ percent(shown[index]) }}</span>
        </li>
      </ul>
      <figure v-if="content.spaces.length > 1">
        <svg :viewBox="'0 0 ' + WIDTH + ' ' + HEIGHT" preserveAspectRatio="none" role="img"
             :aria-label="'History of the weights over ' + content.constraints + ' constraints'"
             @pointermove="hover" @pointerleave="hovered = null">
          <path v-for="(band, index) in bands" :key="index" :d="band" :style="{ fill: tint(index) }"/>
          <line v-if="hovered !== null" :x1="x(hovered)" :x2="x(hovered)" y1="0" :y2="HEIGHT"/>
        </svg>
        <figcaption><span>0</span>
          <span>{{ hovered === null ? 'weights by constraints learned' : 'at ' + history[hovered].constraints.toLocaleString('en') }}</span>
          <span>{{ content.constraints.toLocaleString('en') }}</span></figcaption>
      </figure>
    </section>`,
  methods: {
    percent(share) {
      return `${(100 * share).toFixed(1)} %`;
    },
    width(share) {
      return `${((100 * share) / this.largest).toFixed(2)}%`;
    },
    tint(index) {
      return `var(--space-${this.content.spaces[index].tint})`;
    },
    x(index) {
      const first = this.history[0].constraints;
      const span = this.history[this.history.length - 1].constraints - first || 1;
      return (WIDTH * (this.history[index].constraints - first)) / span;
    },
    point(index, share) {
      return `${this.x(index).toFixed(1)},${(HEIGHT * (1 - share)).toFixed(2)}`;
    },
    hover(event) {
      const box = event.currentTarget.getBoundingClientRect();
      const x = (WIDTH * (event.clientX - box.left)) / box.width;
      const distances = this.history.map((_, index) => Math.abs(this.x(index) - x));
      this.hovered = distances.indexOf(Math.min(...distances));
    },
    withSubscript(name) {
      return name.replace(/^E_(\d+)$/, (_, depth) => "E" + [...depth].map((digit) => "₀₁₂₃₄₅₆₇₈₉"[digit]).join(""));
    },
    meaning(name) {
      const depth = /^E_(\d+)$/.exec(name);
      return depth ? `The expert at depth ${depth[1]} of the network.` : MEANINGS[name] || name;
    },
  },
};
