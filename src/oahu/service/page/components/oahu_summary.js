// The number of learned constraints and the weights in one line.
export default {
  props: { data: String },
  computed: {
    d() {
      return JSON.parse(this.data);
    },
  },
  template: `
    <div class="summary" aria-hidden="true"><span>{{ d.constraints.toLocaleString('en') }} learned</span>
      <div class="mix"><i v-for="space in d.spaces" :key="space.name"
        :style="{ width: 100 * space.weight + '%', background: 'var(--space-' + space.tint + ')' }"></i></div></div>`,
};
