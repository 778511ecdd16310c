// Whether two items are alike, with the distance and the thresholds.
import Thumbnail from "oahu_thumbnail";

export default {
  components: { Thumbnail },
  props: { data: String },
  emits: ["select", "swap"],
  data: () => ({ typed: ["", ""] }),
  computed: {
    d() {
      return JSON.parse(this.data);
    },
    scale() {
      const values = [this.d.distance, this.d.yes_below, this.d.no_from].filter((value) => value !== null && Number.isFinite(value));
      const low = Math.min(0, ...values);
      const high = Math.max(...values, low + 1e-9);
      return { low, span: (high - low) * 1.25 };
    },
    answerText() {
      return { yes: "Alike", no: "Not alike", unknown: "Unknown" }[this.d.answer];
    },
  },
  template: `
    <section class="comparison" aria-label="Compare two items">
      <div class="pair">
        <div v-for="(item, side) in [d.first, d.second]" :key="side" class="slot" :class="{ none: !item }">
          <div class="large"><Thumbnail v-if="item" :item="item"/><span v-else class="name">{{ side ? 'second' : 'first' }} item</span></div>
          <form @submit.prevent="typed[side] && $emit('select', side, typed[side])">
            <input v-model="typed[side]" type="search" :placeholder="item ? item.key : 'Key of an item'" autocomplete="off"
                   spellcheck="false" :aria-label="side ? 'Key of the second item' : 'Key of the first item'">
          </form>
          <p v-if="item" class="under"><span class="key" :title="item.key">{{ item.key }}</span>
            <span v-if="item.label" class="label">{{ item.label }}</span></p>
        </div>
        <button v-if="d.first || d.second" type="button" class="quiet swap" aria-label="Swap the two items" @click="$emit('swap')">⇄</button>
      </div>
      <p v-if="d.error" class="banner" role="alert">{{ d.error }}</p>
      <div v-else-if="d.answer" class="answer" :class="d.answer" aria-live="polite">
        <h2 data-answer>{{ answerText }}</h2>
        <p v-if="d.probability !== null">Probability that they are alike: <b data-probability>{{ (100 * d.probability).toFixed(0) }} %</b>.</p>
        <p>Spaces in which they are alike have <b data-vote-share>{{ (100 * d.vote_share).toFixed(0) }} %</b> of the weight.</p>
        <div class="gauge" role="img" :aria-label="'Distance ' + d.distance.toFixed(3)">
          <span class="zone yes" :style="{ width: position(d.yes_below) }"></span>
          <span class="zone no" :style="{ left: position(d.no_from) }"></span>
          <span class="needle" :style="{ left: position(d.distance) }"></span>
        </div>
        <dl class="numbers">
          <div><dt>Score</dt><dd data-score>{{ d.score.toFixed(3) }}</dd></div>
          <div><dt>Distance</dt><dd>{{ d.distance.toFixed(3) }}</dd></div>
          <div><dt>Alike below</dt><dd data-yes>{{ number(d.yes_below) }}</dd></div>
          <div><dt>Not alike from</dt><dd data-no>{{ number(d.no_from) }}</dd></div>
        </dl>
        <p v-if="!d.calibrated" class="hint">This threshold is the paper's default. Calibrate with labelled pairs to
          adapt it to this catalogue.</p>
      </div>
      <p v-else class="empty">Choose two items: type their keys, or press <kbd>c</kbd> (or ⇄) on a result to compare it
        with the query.</p>
    </section>`,
  watch: {
    data(now, before) {
      const [current, previous] = [JSON.parse(now), JSON.parse(before)];
      if (current.first?.key !== previous.first?.key || current.second?.key !== previous.second?.key) this.typed = ["", ""];
    },
  },
  methods: {
    position(value) {
      if (value === null) return "100%";
      const share = (value - this.scale.low) / this.scale.span;
      return `${(100 * Math.min(1, Math.max(0, share))).toFixed(2)}%`;
    },
    number(value) {
      return value === null || Math.abs(value) > 1e12 ? "–" : value.toFixed(3);
    },
  },
};
