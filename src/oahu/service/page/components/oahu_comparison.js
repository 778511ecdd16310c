// Whether two items are alike, with the distance and the thresholds.
import Thumbnail from "oahu_thumbnail";

export default {
  components: { Thumbnail },
  props: { data: String },
  emits: ["select", "swap"],
  data: () => ({ typed: ["", ""] }),
  computed: {
    content() {
      return JSON.parse(this.data);
    },
    scale() {
      const values = [this.content.distance, this.content.yes_below, this.content.no_from].filter((value) => value !== null && Number.isFinite(value));
      const low = Math.min(0, ...values);
      const high = Math.max(...values, low + 1e-9);
      return { low, span: (high - low) * 1.25 };
    },
    answerText() {
      return { yes: "Alike", no: "Not alike", unknown: "Unknown" }[this.content.answer];
    },
  },
  template: `
    <section class="comparison" aria-label="Compare two items">
      <div class="pair">
        <div v-for="(item, side) in [content.first, content.second]" :key="side" class="slot" :class="{ none: !item }">
          <div class="large"><Thumbnail v-if="item" :item="item"/><span v-else class="name">{{ side ? 'second' : 'first' }} item</span></div>
          <form @submit.prevent="typed[side] && $emit('select', side, typed[side])">
            <input v-model="typed[side]" type="search" :placeholder="item ? item.key : 'Key of an item'" autocomplete="off"
                   spellcheck="false" :aria-label="side ? 'Key of the second item' : 'Key of the first item'">
          </form>
          <p v-if="item" class="under"><span class="key" :title="item.key">{{ item.key }}</span>
            <span v-if="item.label" class="label">{{ item.label }}</span></p>
        </div>
        <button v-if="content.first || content.second" type="button" class="quiet swap" aria-label="Swap the two items" @click="$emit('swap')">⇄</button>
      </div>
      <p v-if="content.error" class="banner" role="alert">{{ content.error }}</p>
      <div v-else-if="content.answer" class="answer" :class="content.answer" aria-live="polite">
        <h2 data-answer>{{ answerText }}</h2>
        <p v-if="content.probability !== null">Probability that they are alike: <b data-probability>{{ (100 * content.probability).toFixed(0) }} %</b>.</p>
        <p>The spaces in which they are alike have <b data-vote-share>{{ (100 * content.vote_share).toFixed(0) }} %</b> of the weight.</p>
        <div class="gauge" role="img" :aria-label="'Distance ' + content.distance.toFixed(3)">
          <span class="zone yes" :style="{ width: position(content.yes_below) }"></span>
          <span class="zone no" :style="{ left: position(content.no_from) }"></span>
          <span class="needle" :style="{ left: position(content.distance) }"></span>
        </div>
        <dl class="numbers">
          <div><dt>Score</dt><dd data-score>{{ content.score.toFixed(3) }}</dd></div>
          <div><dt>Distance</dt><dd>{{ content.distance.toFixed(3) }}</dd></div>
          <div><dt>Alike below</dt><dd data-yes>{{ number(content.yes_below) }}</dd></div>
          <div><dt>Not alike from</dt><dd data-no>{{ number(content.no_from) }}</dd></div>
        </dl>
        <p v-for="warning in content.warnings" :key="warning" class="banner warning">{{ warning }}</p>
        <p v-if="!content.calibrated" class="hint">This is the default threshold of the paper. Calibrate with labelled pairs to choose
          a threshold for this catalogue.</p>
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
