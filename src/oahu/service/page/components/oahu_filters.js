// Find items by key or by words, and filter by label: buttons for a few labels, a list for many.
const MAX_BUTTONS = 14;

export default {
  props: { data: String },
  emits: ["label", "find"],
  data: () => ({ typed: "" }),
  computed: {
    content() {
      return JSON.parse(this.data);
    },
    areFew() {
      return this.content.labels.length <= MAX_BUTTONS;
    },
  },
  template: `
    <div class="filters">
      <form class="find" role="search" @submit.prevent="find">
        <input v-model="typed" type="search" placeholder="Find by key or words" aria-label="Find items by key or words"
               autocomplete="off" spellcheck="false">
      </form>
      <div v-if="content.labels.length && areFew" class="chips" role="group" aria-label="Filter by label">
        <button type="button" class="chip" :aria-pressed="content.chosen === null" @click="$emit('label', null)">
          All <i>{{ content.total.toLocaleString('en') }}</i></button>
        <button v-for="one in content.labels" :key="one[0]" type="button" class="chip" :aria-pressed="content.chosen === one[0]"
                @click="$emit('label', content.chosen === one[0] ? null : one[0])">
          <span>{{ one[0] }}</span> <i>{{ one[1].toLocaleString('en') }}</i></button>
      </div>
      <select v-else-if="content.labels.length" aria-label="Filter by label"
              @change="$emit('label', $event.target.selectedIndex ? content.labels[$event.target.selectedIndex - 1][0] : null)">
        <option :selected="content.chosen === null">All labels ({{ content.total.toLocaleString('en') }})</option>
        <option v-for="one in content.labels" :key="one[0]" :selected="content.chosen === one[0]">
          {{ one[0] }} ({{ one[1].toLocaleString('en') }})</option>
      </select>
    </div>`,
  methods: {
    find() {
      if (this.typed || this.content.text) this.$emit("find", this.typed);
    },
  },
  watch: {
    "content.text": {
      immediate: true,
      handler(text) {
        this.typed = text || "";
      },
    },
  },
};
