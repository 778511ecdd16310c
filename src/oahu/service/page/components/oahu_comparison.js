// Whether two items are alike, and how sure that is.
import Thumbnail from "oahu_thumbnail";

export default {
  components: { Thumbnail },
  props: { data: String },
  emits: ["pick", "swap"],
  data: () => ({ typed: ["", ""] }),
  computed: {
    d() {
      return JSON.parse(this.data);
    },
    scale() {
      const known = [this.d.apart, this.d.yes_below, this.d.no_from].filter((one) => one !== null && Number.isFinite(one));
      const low = Math.min(0, ...known);
      const high = Math.max(...known, low + 1e-9);
      return { low, span: (high - low) * 1.25 };
    },
    word() {
      return { yes: "Alike", no: "Not alike", unknown: "Unknown" }[this.d.answer];
    },
  },
  template: `
    <section class="verdict" aria-label="Compare two items">
      <div class="pair">
        <div v-for="(item, at) in [d.first, d.second]" :key="at" class="slot" :class="{ none: !item }">
          <div class="large"><Thumbnail v-if="item" :item="item"/><span v-else class="name">{{ at ? 'second' : 'first' }} item</span></div>
          <form @submit.prevent="typed[at] && $emit('pick', at, typed[at])">
            <input v-model="typed[at]" type="search" :placeholder="item ? item.key : 'Key of an item'" autocomplete="off"
                   spellcheck="false" :aria-label="at ? 'Key of the second item' : 'Key of the first item'">
          </form>
          <p v-if="item" class="under"><span class="key" :title="item.key">{{ item.key }}</span>
            <span v-if="item.label" class="label">{{ item.label }}</span></p>
        </div>
        <button v-if="d.first || d.second" type="button" class="quiet swap" aria-label="Swap the two" @click="$emit('swap')">⇄</button>
      </div>
      <p v-if="d.error" class="banner" role="alert">{{ d.error }}</p>
      <div v-else-if="d.answer" class="answer" :class="d.answer" aria-live="polite">
        <h2 data-answer>{{ word }}</h2>
        <p>Parts of the metric that find them alike carry <b data-probability>{{ (100 * d.probability).toFixed(0) }} %</b> of its weight.</p>
        <div class="gauge" role="img" :aria-label="'Apart by ' + d.apart.toFixed(3)">
          <span class="zone yes" :style="{ width: place(d.yes_below) }"></span>
          <span class="zone no" :style="{ left: place(d.no_from) }"></span>
          <span class="needle" :style="{ left: place(d.apart) }"></span>
        </div>
        <dl class="dials">
          <div><dt>Score</dt><dd data-score>{{ d.score.toFixed(3) }}</dd></div>
          <div><dt>Apart</dt><dd>{{ d.apart.toFixed(3) }}</dd></div>
          <div><dt>Alike below</dt><dd data-yes>{{ number(d.yes_below) }}</dd></div>
          <div><dt>Not alike from</dt><dd data-no>{{ number(d.no_from) }}</dd></div>
        </dl>
        <p v-if="!d.calibrated" class="hint">The threshold is the paper's. Calibrating with labelled pairs of this
          catalogue makes it this catalogue's own.</p>
      </div>
      <p v-else class="empty">Choose two items: type their keys, or press <kbd>c</kbd> (or ⇄) at a result to compare it
        with what was searched for.</p>
    </section>`,
  watch: {
    data(now, before) {
      const [is, was] = [JSON.parse(now), JSON.parse(before)];
      if (is.first?.key !== was.first?.key || is.second?.key !== was.second?.key) this.typed = ["", ""];
    },
  },
  methods: {
    place(value) {
      if (value === null) return "100%";
      const share = (value - this.scale.low) / this.scale.span;
      return `${(100 * Math.min(1, Math.max(0, share))).toFixed(2)}%`;
    },
    number(value) {
      return value === null || Math.abs(value) > 1e12 ? "–" : value.toFixed(3);
    },
  },
};
